"""Switching a recorder off asks what happens to its planned bookings, and does it (R-27)."""

from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from django.forms.models import model_to_dict
from django.test import Client
from django.urls import reverse

from nodes.models import Node, Reservation
from scheduling.bookings import many
from scheduling.bookings.changing import restore
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder, Schedule
from scheduling.rules import replanning
from scheduling.rules.controls import switch_off, switch_on
from scheduling.rules.planning import plan_ahead, step
from scheduling.tests.test_lost_races import first
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert, AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State, Skip = Booking.State, Booking.Skip
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def deck(project: Any, node: Node) -> Recorder:
    """A recorder with a device, so that its bookings have reservations."""
    return Recorder.objects.create(name="Deck", project=project, source_type="decklink", address="0", node=node)


@pytest.fixture
def daily(deck: Recorder, now: datetime) -> Schedule:
    """Planned for the next 14 days."""
    schedule = Schedule.objects.create(
        name="Daily",
        recorder=deck,
        kind="daily",
        zone="UTC",
        first_on=date(2026, 1, 1),
        start_time=time(4),
        length=HOUR,
    )
    plan_ahead(schedule, now)
    return schedule


def states(**conditions: Any) -> list[str]:
    return sorted(set(Booking.objects.filter(**conditions).values_list("state", flat=True)))


def submit(client: Client, recorder: Recorder, **changes: Any) -> str:
    """Save the recorder's form with these changes; returns the page that follows."""
    names = ["name", "project", "source_type", "address", "container", "split_minutes", "folder_template"]
    names += ["picture_size", "video_bitrate", "node", "node_labels", "pad_before_seconds", "pad_after_seconds"]
    values = {name: value for name, value in model_to_dict(recorder, names).items() if value is not None}
    values |= {"is_active": "on", **changes}
    values = {name: value for name, value in values.items() if value != ""}
    page = reverse("admin:scheduling_recorder_change", args=[recorder.pk])
    return client.post(page, values, follow=True).content.decode()


def test_the_form_asks_and_names_the_next_three_bookings(boss: Client, daily: Schedule, deck: Recorder) -> None:
    """R-27: without an answer nothing is saved."""
    page = submit(boss, deck, is_active="")

    count = daily.bookings.count()
    assert f"{count} bookings are planned: “Daily” (" in page
    assert page.count("“Daily” (") == 3
    assert "Skip them" in page
    deck.refresh_from_db()
    assert deck.is_active
    assert states() == [State.PLANNED]


def test_skip_skips_what_is_planned_and_frees_the_device(boss: Client, daily: Schedule, deck: Recorder) -> None:
    """R-27: planned and armed bookings, with a reason of its own, an audit entry and no reservation left."""
    armed = daily.bookings.order_by("starts_at").first()
    assert armed is not None
    assert armed.move(State.ARMED, now=database_now())
    count = daily.bookings.count()

    page = submit(boss, deck, is_active="", planned="skip")

    assert f"{count} bookings are skipped until you switch it on again" in page
    deck.refresh_from_db()
    daily.refresh_from_db()
    assert not deck.is_active
    assert states(skip_reason=Skip.OFF) == [State.SKIPPED]
    assert not Booking.objects.exclude(skip_reason=Skip.OFF).exists()
    assert not Reservation.objects.standing().exists()
    assert daily.exceptions == [], "the rule still wants them"
    entry = AuditEntry.objects.get(what="switch off")
    assert (entry.who, entry.after["skipped"]) == ("boss", count)
    assert armed.events.order_by("id").last().note == "the recorder is switched off"  # type: ignore[union-attr]


def test_keep_leaves_the_planned_bookings_and_says_so(boss: Client, daily: Schedule, deck: Recorder) -> None:
    """R-27: they are recorded, although the recorder takes no new ones."""
    page = submit(boss, deck, is_active="", planned="keep")

    assert f"{daily.bookings.count()} bookings are still planned and will be recorded: “Daily” (" in page
    assert states() == [State.PLANNED]
    with pytest.raises(BookingRefused, match="Deck is switched off"):
        book(deck, database_now() + 2 * DAY, database_now() + 2 * DAY + HOUR, now=database_now())


def test_a_recorder_without_planned_bookings_is_switched_off_without_a_question(boss: Client, deck: Recorder) -> None:
    """R-27: and one that was off already is not asked about either."""
    assert (
        "If you switch it off"
        not in boss.get(reverse("admin:scheduling_recorder_change", args=[deck.pk])).content.decode()
    )
    assert "Deck is switched off." in submit(boss, deck, is_active="")
    deck.refresh_from_db()
    assert not deck.is_active
    assert "are skipped" not in submit(boss, deck, is_active="", name="Deck 2")


def test_a_recording_that_runs_continues_and_the_page_says_so(boss: Client, deck: Recorder, now: datetime) -> None:
    """R-27: Stop is another button."""
    running = book(deck, now, now + HOUR, now=now, title="Match")
    for state in (State.ARMED, State.STARTING, State.RECORDING):
        assert running.move(state, now=now)

    page = submit(boss, deck, is_active="", planned="skip")

    assert "“Match” is recording now and continues until" in page
    running.refresh_from_db()
    assert running.state == State.RECORDING
    assert Reservation.objects.standing().get().owner == running.owner


@pytest.mark.parametrize(
    ("moves", "result"),
    [((State.ARMED,), State.SKIPPED), ((State.ARMED, State.STARTING), State.STARTING)],
    ids=["armed", "starting"],
)
def test_a_booking_that_moves_on_between_the_question_and_the_skip(
    moves: tuple[State, ...], result: State, deck: Recorder, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-27: one that is only armed is skipped all the same; one that has started continues and is named."""
    booking = book(deck, now + HOUR, now + 2 * HOUR, now=now, title="Match")

    def other_process() -> None:
        other = Booking.objects.get(pk=booking.pk)
        assert all(other.move(state, now=now) for state in moves)

    first(many, "_move", other_process, monkeypatch)
    outcome = switch_off(deck, by="anna", planned="skip")

    booking.refresh_from_db()
    assert booking.state == result
    assert ("“Match” is starting now and continues until" in outcome.text) == (result == State.STARTING)
    assert ("1 booking is skipped" in outcome.text) == (result == State.SKIPPED)
    assert outcome.details["skipped"] == int(result == State.SKIPPED)


def test_a_leader_cannot_start_what_was_skipped_after_it_was_armed(deck: Recorder, now: datetime) -> None:
    """R-27: the dispatcher's compare-and-set finds it skipped."""
    booking = book(deck, now + HOUR, now + 2 * HOUR, now=now)
    assert booking.move(State.ARMED, now=now)
    held = Booking.objects.get(pk=booking.pk)

    switch_off(deck, by="anna", planned="skip")

    assert not Booking.move_batch([held.pk], State.ARMED, State.STARTING, now=now)
    assert states() == [State.SKIPPED]


def test_a_booking_with_a_recorder_that_was_read_before_it_was_switched_off_is_refused(
    deck: Recorder, now: datetime
) -> None:
    """R-27: what another process has read does not count."""
    stale = Recorder.objects.get(pk=deck.pk)
    switch_off(deck, by="anna", planned="skip")
    assert stale.is_active

    with pytest.raises(BookingRefused, match="Deck is switched off"):
        book(stale, now + HOUR, now + 2 * HOUR, now=now)

    assert not Booking.objects.exists()


def test_schedules_plan_nothing_while_the_recorder_is_off(daily: Schedule, deck: Recorder, now: datetime) -> None:
    """R-27: neither bookings nor an alert for every window; also not after an edit of the rule."""
    switch_off(deck, by="anna", planned="skip")
    count = Booking.objects.count()
    Schedule.objects.update(plan_due_at=now)

    assert step(Term(), now + 3 * DAY) is None

    assert Booking.objects.count() == count
    daily.refresh_from_db()
    daily.start_time = time(5)
    daily.save()
    changes = replanning.replan(daily, now)
    assert changes.in_words() == "none planned because Deck is switched off."
    assert not Booking.objects.filter(state=State.PLANNED).exists()
    assert not Alert.objects.exists()


def test_switching_on_plans_again_what_was_skipped(boss: Client, daily: Schedule, deck: Recorder) -> None:
    """R-27: the same bookings, no second ones; those of the rule and those made by hand."""
    now = database_now()
    by_hand = book(deck, now + 30 * DAY, now + 30 * DAY + HOUR, now=now, title="Match")
    before = set(Booking.objects.values_list("pk", flat=True))
    switch_off(deck, by="anna", planned="skip")
    deck.refresh_from_db()

    page = submit(boss, deck)

    assert f"{len(before)} bookings are planned again" in page
    assert set(Booking.objects.filter(state=State.PLANNED).values_list("pk", flat=True)) == before
    assert Reservation.objects.standing().filter(owner=by_hand.owner).exists()
    step(Term(), database_now())
    assert set(Booking.objects.values_list("pk", flat=True)) == before
    daily.refresh_from_db()
    assert daily.plan_due_at is not None


def test_switching_on_leaves_what_nobody_wants_any_more(daily: Schedule, deck: Recorder, now: datetime) -> None:
    """R-27: a paused schedule keeps its bookings skipped until it is resumed; a deleted one for good."""
    other = Schedule.objects.create(
        name="Other",
        recorder=deck,
        kind="daily",
        zone="UTC",
        first_on=date(2026, 1, 1),
        start_time=time(8),
        length=HOUR,
    )
    plan_ahead(other, now)
    switch_off(deck, by="anna", planned="skip")
    replanning.pause(daily, now=now, by="anna")
    replanning.discard(other, now)
    other.delete()

    outcome = switch_on(deck, by="anna")

    assert "planned again" not in outcome.text
    assert states() == [State.SKIPPED]
    changes = replanning.resume(daily, now=now, by="anna")
    assert changes is not None
    assert changes.planned == daily.bookings.count()
    assert states(schedule=daily) == [State.PLANNED]


def test_resuming_a_schedule_whose_recorder_is_off_waits_for_the_recorder(
    daily: Schedule, deck: Recorder, now: datetime
) -> None:
    """R-27: neither planned nor given up."""
    replanning.pause(daily, now=now, by="anna")
    switch_off(deck, by="anna", planned="skip")

    changes = replanning.resume(daily, now=now, by="anna")

    assert changes is not None
    assert "Deck is switched off" in changes.in_words()
    assert states() == [State.SKIPPED]
    assert not Alert.objects.exists()
    switch_on(deck, by="anna")
    assert states() == [State.PLANNED]


def test_a_skipped_booking_whose_device_was_taken_stays_skipped_with_an_alert(
    project: Any, node: Node, deck: Recorder, now: datetime
) -> None:
    """R-27: the message and an alert say so."""
    booking = book(deck, now + HOUR, now + 2 * HOUR, now=now, title="Match")
    switch_off(deck, by="anna", planned="skip")
    rival = Recorder.objects.create(name="Rival", project=project, source_type="decklink", address="0", node=node)
    book(rival, now + HOUR, now + 2 * HOUR, now=now)

    outcome = switch_on(deck, by="anna")

    assert "1 booking is still skipped because the window is taken: “Match”" in outcome.text
    booking.refresh_from_db()
    assert (booking.state, booking.skip_reason) == (State.SKIPPED, Skip.CONFLICT)
    assert "Rival (booking" in Alert.objects.get(key=f"skipped:{booking.owner}").text


def test_a_skipped_booking_cannot_be_restored_while_the_recorder_is_off(deck: Recorder, now: datetime) -> None:
    """R-27: switch it on first."""
    booking = book(deck, now + HOUR, now + 2 * HOUR, now=now)
    switch_off(deck, by="anna", planned="skip")
    booking.refresh_from_db()
    with pytest.raises(BookingRefused, match="Deck is switched off"):
        restore(booking, now=now, by="anna")
