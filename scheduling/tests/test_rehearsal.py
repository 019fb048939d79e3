"""A rehearsal runs the real code and changes nothing; bookings from the command line (R-09, R-13)."""

import json
from datetime import date, time, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from nodes.models import Node, Workload
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder, Schedule
from scheduling.rules import rehearsal
from station.models import Alert
from testing.processes import manage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

HOUR = timedelta(hours=1)


@pytest.fixture
def station(project: Any) -> Recorder:
    """Two recorders, a node for one recording at a time, and rules that clash on a recorder and on the node."""
    Node.objects.create(name="n1", address="process", media_dir="/media", max_workloads=1)
    first, second = (Recorder.objects.create(name=name, project=project, source_type="test") for name in ("A", "B"))

    def rule(recorder: Recorder, name: str, at: time, length: timedelta, **fields: Any) -> None:
        Schedule.objects.create(
            name=name,
            recorder=recorder,
            kind="daily",
            zone="Europe/Berlin",
            first_on=date(2027, 1, 1),
            start_time=at,
            length=length,
            **fields,
        )

    rule(first, "Night", time(2, 30), HOUR)
    rule(first, "Evening", time(20, 0), HOUR)
    rule(first, "Clash", time(20, 30), HOUR)
    rule(second, "Crowded", time(3, 10), HOUR / 4)
    return first


def test_a_clock_change_day_is_rehearsed_and_nothing_is_changed(station: Recorder) -> None:
    """28 March 2027: the clocks go forward; 02:30 starts at 03:00 and the next one finds the node full."""
    output = manage("rehearse", "--from", "2027-03-27T12:00", "--to", "2027-03-28T22:00", "--json")
    assert output.returncode == 0, output.stderr
    rows = json.loads(output.stdout)
    by_title = {}
    for row in rows:
        by_title.setdefault(row["title"], []).append(row)

    [night] = by_title["Night"]
    assert (night["starts_at"], night["ends_at"]) == ("2027-03-28T01:00:00+00:00", "2027-03-28T01:30:00+00:00")
    assert night["state"] == "completed"
    assert [row["starts_at"][:16] for row in by_title["Evening"]] == ["2027-03-27T19:00", "2027-03-28T18:00"]
    assert {row["state"] for row in by_title["Evening"]} == {"completed"}
    assert {(row["state"], row["skip_reason"]) for row in by_title["Clash"]} == {("skipped", "conflict")}
    [crowded] = by_title["Crowded"]
    assert crowded["state"] in {"failed", "partial"}
    assert any("already runs 1 of 1 workloads" in note for note in crowded["notes"])

    assert not Booking.objects.exists()
    assert not Workload.objects.exists()
    assert not Alert.objects.exists()
    assert set(Schedule.objects.values_list("planned_until_at", flat=True)) == {None}


def test_a_rehearsal_hides_the_real_tables_of_every_app_below() -> None:
    tables = ["station_alert", "nodes_workload", "jobs_run", "scheduling_booking"]
    with rehearsal._copy(timezone.now()), connection.cursor() as cursor:
        cursor.execute("SELECT relpersistence FROM pg_class WHERE oid = ANY(%s::regclass[])", [tables])
        assert cursor.fetchall() == [("t",)] * len(tables)


def test_the_report_names_the_clock_change(station: Recorder) -> None:
    output = manage("rehearse", "--from", "2027-03-27T12:00", "--to", "2027-03-28T22:00").stdout
    assert "2027-03-28 02:00          -- the clocks go forward to 03:00 --" in output
    assert "2027-03-28 20:00:00 CEST - 21:00:00 (1 h 00 min)  A: Evening  recorded" in output
    assert "A: Clash  SKIPPED: A is taken by “Evening”" in output
    assert "Nothing was changed." in output
    assert output.index("clocks go forward") > output.index("2027-03-27 20:00")


def test_a_rehearsal_includes_bookings_made_by_hand(station: Recorder) -> None:
    start = timezone.now().replace(microsecond=0) + timedelta(days=2)
    booking = book(station, start, start + HOUR, now=timezone.now(), title="By hand")
    Schedule.objects.all().delete()
    output = manage(
        "rehearse",
        "--zone",
        "UTC",
        "--from",
        f"{start - HOUR:%Y-%m-%dT%H:%M}",
        "--to",
        f"{start + 2 * HOUR:%Y-%m-%dT%H:%M}",
    )
    assert "By hand  recorded" in output.stdout, output.stderr
    booking.refresh_from_db()
    assert booking.state == "planned"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "soon", "--to", "2027-01-01"], "Not a day or time"),
        (["--from", "2027-01-02", "--to", "2027-01-01"], "end must come after the start"),
        (["--from", "2027-01-01", "--to", "2037-01-01"], "at most 400 days"),
        (["--from", "2027-01-01", "--to", "2027-01-02", "--zone", "Mars/Base"], "not a time zone"),
    ],
)
def test_an_impossible_time_span_is_refused_with_a_message(arguments: list[str], words: str) -> None:
    """S-07."""
    with pytest.raises(CommandError, match=words):
        call_command("rehearse", *arguments)


def test_book_from_the_command_line(station: Recorder) -> None:
    output = manage("book", "A", "2027-03-28T02:30", "2027-03-28T04:00", "--title", "Film")
    assert output.returncode == 0, output.stderr
    assert "2027-03-28 03:00:00 CEST to 2027-03-28 04:00:00 CEST" in output.stdout
    again = manage("book", "A", "2027-03-28T03:30+02:00", "2027-03-28T05:00+02:00")
    assert again.returncode == 1
    assert "taken by “Film”" in again.stderr
    for arguments, words in (
        (["Nobody", "2027-01-01", "2027-01-02"], "no recorder called Nobody"),
        (["A", "tomorrow", "2027-01-02"], "not a time like"),
        (["A", "2020-01-01", "2020-01-02"], "past"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("book", *arguments)
