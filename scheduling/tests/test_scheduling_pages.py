"""The pages of schedules and bookings: create, refuse with an alternative, edit, actions (R-12, R-13, R-19, R-20)."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.bookings.calendars import MAX_BYTES, BadCalendar, feed_of, import_entries, make_feed, read_calendar
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder, Schedule
from scheduling.recording.punctuality import days
from station.clock import house_zone
from station.models import AuditEntry, Project

pytestmark = [pytest.mark.django_db]

State = Booking.State
HOUR = timedelta(hours=1)


@pytest.fixture
def camera(project: Any) -> Recorder:
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


@pytest.fixture
def boss(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def noon() -> datetime:
    return (timezone.now() + timedelta(days=1)).replace(minute=0, second=0, microsecond=0)


def form(recorder: Recorder, starts_at: datetime, ends_at: datetime, title: str = "") -> dict[str, Any]:
    """The form data a browser sends, in house time."""
    values: dict[str, Any] = {"recorder": recorder.pk, "title": title}
    for name, moment in (("starts_at", starts_at), ("ends_at", ends_at)):
        local = moment.astimezone(house_zone())
        values |= {f"{name}_0": f"{local:%Y-%m-%d}", f"{name}_1": f"{local:%H:%M:%S}"}
    history = {"events-TOTAL_FORMS": 0, "events-INITIAL_FORMS": 0, "events-MIN_NUM_FORMS": 0, "events-MAX_NUM_FORMS": 0}
    return {**values, **history}


def test_a_booking_is_made_by_form_in_house_time(boss: Client, camera: Recorder, noon: datetime) -> None:
    answer = boss.post(reverse("admin:scheduling_booking_add"), form(camera, noon, noon + HOUR, "News"))
    assert answer.status_code == 302, answer.content.decode()
    booking = Booking.objects.get()
    assert (booking.starts_at, booking.ends_at, booking.requested_by) == (noon, noon + HOUR, "boss")
    assert AuditEntry.objects.filter(what="add", who="boss").exists()


def test_a_refused_booking_is_explained_with_a_link_and_the_next_free_slot(
    boss: Client, camera: Recorder, noon: datetime
) -> None:
    """R-13: following the link fills in the form and books nothing."""
    winner = book(camera, noon, noon + HOUR, now=timezone.now(), by="anna", title="News")
    page = boss.post(reverse("admin:scheduling_booking_add"), form(camera, noon + HOUR / 2, noon + 2 * HOUR, "Film"))

    assert page.status_code == 200
    text = page.content.decode()
    assert "Cam is taken by “News”" in text
    assert reverse("admin:scheduling_booking_change", args=[winner.pk]) in text
    start = text.index(reverse("admin:scheduling_booking_add") + "?")
    link = text[start : text.index('"', start)].replace("&amp;", "&")
    assert Booking.objects.count() == 1

    offered = boss.get(link)
    assert Booking.objects.count() == 1
    local = (noon + HOUR).astimezone(house_zone())
    assert f'value="{local:%H:%M:%S}"' in offered.content.decode()
    assert 'value="Film"' in offered.content.decode()


@pytest.mark.parametrize("shift", [timedelta(0), -2 * HOUR])
def test_an_impossible_window_is_reported_at_its_field(
    boss: Client, camera: Recorder, noon: datetime, shift: timedelta
) -> None:
    """S-07."""
    page = boss.post(reverse("admin:scheduling_booking_add"), form(camera, noon, noon + shift))
    assert "The end must come after the start." in page.content.decode()
    assert not Booking.objects.exists()


def test_a_planned_booking_can_be_moved_and_a_running_one_gets_a_new_end(
    boss: Client, camera: Recorder, noon: datetime
) -> None:
    """R-12."""
    booking = book(camera, noon, noon + HOUR, now=timezone.now())
    url = reverse("admin:scheduling_booking_change", args=[booking.pk])
    assert boss.post(url, form(camera, noon + HOUR, noon + 2 * HOUR, "Later")).status_code == 302
    booking.refresh_from_db()
    assert (booking.starts_at, booking.title) == (noon + HOUR, "Later")

    Booking.objects.update(state=State.RECORDING)
    page = boss.get(url).content.decode()
    assert 'name="starts_at_0"' not in page
    assert 'name="ends_at_0"' in page
    stale = form(camera, noon, noon + 3 * HOUR, "Later")
    assert "only its end can be changed" in boss.post(url, stale).content.decode()
    fresh = {name: value for name, value in stale.items() if not name.startswith("starts_at")}
    assert boss.post(url, fresh).status_code == 302
    booking.refresh_from_db()
    assert (booking.starts_at, booking.ends_at) == (noon + HOUR, noon + 3 * HOUR)

    Booking.objects.update(state=State.COMPLETED)
    assert 'name="ends_at_0"' not in boss.get(url).content.decode()


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (State.PLANNED, {"start-early", "extend-15", "extend-30", "extend-60", "skip", "cancel"}),
        (State.RECORDING, {"stop", "extend-15", "extend-30", "extend-60", "cancel"}),
        (State.SKIPPED, {"restore"}),
        (State.COMPLETED, set()),
    ],
)
def test_a_button_is_shown_only_where_it_would_work(
    boss: Client, camera: Recorder, noon: datetime, state: str, shown: set[str]
) -> None:
    booking = book(camera, noon, noon + HOUR, now=timezone.now())
    Booking.objects.update(state=state)
    page = boss.get(reverse("admin:scheduling_booking_change", args=[booking.pk])).content.decode()
    every = {"start-early", "stop", "extend-15", "extend-30", "extend-60", "skip", "restore", "cancel"}
    assert {name for name in every if f"/{booking.pk}/{name}" in page} == shown


def test_extend_skip_restore_and_cancel_by_button(boss: Client, camera: Recorder, noon: datetime) -> None:
    """R-12, R-10; S-02: only by POST."""
    booking = book(camera, noon, noon + HOUR, now=timezone.now())

    def press(name: str) -> None:
        url = reverse(f"admin:scheduling_booking_{name}", args=[booking.pk])
        before = Booking.objects.get().state, Booking.objects.get().ends_at
        boss.get(url)
        assert (Booking.objects.get().state, Booking.objects.get().ends_at) == before
        assert "HX-Redirect" in boss.post(url, {"_form_submitted": "on"}).headers
        booking.refresh_from_db()

    press("extend_30")
    assert booking.ends_at == noon + 1.5 * HOUR
    press("skip")
    assert booking.state == State.SKIPPED
    press("restore")
    assert booking.state == State.PLANNED
    press("cancel")
    assert booking.state == State.CANCELLED
    assert AuditEntry.objects.filter(who="boss").count() >= 4


def test_bulk_actions_report_the_rows_they_skipped(boss: Client, camera: Recorder, noon: datetime) -> None:
    noon -= 20 * HOUR
    first = book(camera, noon, noon + HOUR, now=timezone.now(), title="One")
    second = book(camera, noon + HOUR, noon + 2 * HOUR, now=timezone.now(), title="Two")
    Booking.objects.filter(pk=second.pk).update(state=State.COMPLETED)
    data = {"action": "cancel_selected", "_selected_action": [first.pk, second.pk]}
    page = boss.post(reverse("admin:scheduling_booking_changelist"), data, follow=True).content.decode()
    assert "1 cancelled, 1 left as they are (Two: completed)" in page


@pytest.mark.parametrize(
    "query", ["when=today", "when=next7", "when=past7", "outcome=failed", "outcome=not", "when=nonsense"]
)
def test_filters_work(boss: Client, camera: Recorder, noon: datetime, query: str) -> None:
    book(camera, noon, noon + HOUR, now=timezone.now(), title="Zebras")
    page = boss.get(f"{reverse('admin:scheduling_booking_changelist')}?{query}")
    assert page.status_code == 200
    assert ("Zebras" in page.content.decode()) is (query in {"when=next7", "when=nonsense"})


def rule(recorder: Recorder, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": "Evening",
        "recorder": recorder.pk,
        "kind": "daily",
        "zone": "Europe/Berlin",
        "first_on": "2026-01-01",
        "start_time": "20:15",
        "length": "1:30:00",
        "ends": "wall",
        "late_start": "start",
        "min_useful_seconds": "30",
        "overlap": "skip",
        "cron": "",
        "until_on": "",
        "count": "",
        "pad_before_seconds": "",
        "pad_after_seconds": "",
        "max_late_seconds": "",
    }
    return {**values, **changes}


def fourteen(schedule: Schedule, state: str) -> bool:
    """Fourteen future bookings; in the evening there is also one that is open now."""
    return schedule.bookings.filter(state=state, starts_at__gt=timezone.now()).count() == 14


def test_a_schedule_is_saved_planned_and_described(boss: Client, camera: Recorder) -> None:
    """R-09, R-12."""
    url = reverse("admin:scheduling_schedule_add")
    page = boss.post(url, rule(camera), follow=True).content.decode()
    schedule = Schedule.objects.get()
    assert "Every day at 20:15, Europe/Berlin" in page
    assert fourteen(schedule, State.PLANNED)
    assert schedule.created_by == "boss"

    change = reverse("admin:scheduling_schedule_change", args=[schedule.pk])
    page = boss.post(change, rule(camera, start_time="20:30"), follow=True).content.decode()
    assert re.search("1[45] removed", page)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "cron", "cron": "61 * * * *"}, "must be between 0 and 59"),
        ({"kind": "cron", "cron": "0 0 31 2 *"}, "No day in the calendar"),
        ({"zone": "Factory"}, "Factory is not one of the available choices"),
        ({"kind": "weekly"}, "Choose at least one day."),
        ({"start_time": ""}, "Enter a start time."),
        ({"length": "0"}, "Enter a length between one second and seven days."),
        ({"until_on": "2025-01-01"}, "The last day is before the first day."),
        ({"count": "0"}, "greater than or equal to 1"),
        ({"length": "tomorrow"}, "Enter a valid duration."),
    ],
)
def test_a_bad_rule_is_reported_at_its_field(boss: Client, camera: Recorder, changes: dict, words: str) -> None:
    """S-07: nothing is stored."""
    page = boss.post(reverse("admin:scheduling_schedule_add"), rule(camera, **changes)).content.decode()
    assert words in page
    assert not Schedule.objects.exists()


def test_the_form_shows_the_next_ten_windows_and_the_clock_changes(boss: Client, camera: Recorder) -> None:
    page = boss.get(reverse("schedule-preview"), rule(camera, start_time="02:30")).content.decode()
    assert page.count("<tr") == 11
    assert "Every day at 02:30" in page
    assert "the clocks go" in page
    weekly = boss.get(
        reverse("schedule-preview"), {**rule(camera, kind="weekly"), "weekdays": ["5", "0"]}
    ).content.decode()
    assert "Every Monday, Saturday at 20:15" in weekly
    broken = boss.get(reverse("schedule-preview"), rule(camera, kind="cron", cron="x")).content.decode()
    assert "The rule is not complete." in broken
    assert "Fill in" in boss.get(reverse("admin:scheduling_schedule_add")).content.decode()


def test_pause_resume_and_delete_by_button(boss: Client, camera: Recorder) -> None:
    boss.post(reverse("admin:scheduling_schedule_add"), rule(camera))
    schedule = Schedule.objects.get()
    boss.post(reverse("admin:scheduling_schedule_pause", args=[schedule.pk]), {"_form_submitted": "on"})
    schedule.refresh_from_db()
    assert schedule.is_paused
    assert fourteen(schedule, State.SKIPPED)
    boss.post(reverse("admin:scheduling_schedule_resume", args=[schedule.pk]), {"_form_submitted": "on"})
    assert fourteen(schedule, State.PLANNED)
    schedule.bookings.filter(pk=schedule.bookings.first().pk).update(state=State.COMPLETED)
    boss.post(reverse("admin:scheduling_schedule_delete", args=[schedule.pk]), {"post": "yes"})
    assert Booking.objects.count() == 1
    assert not Schedule.objects.exists()


def test_a_member_of_another_project_sees_nothing(camera: Recorder, make_member: Any, noon: datetime) -> None:
    """S-01: schedules, bookings, their buttons, tonight, import; and a viewer may not use the buttons."""
    other = Project.objects.create(name="Sport", slug="sport")
    Schedule.objects.create(
        name="Secret show", recorder=camera, kind="daily", first_on=date(2026, 1, 1), start_time=time(1), length=HOUR
    )
    booking = book(camera, noon, noon + HOUR, now=timezone.now(), title="Secret show")
    stranger = Client()
    stranger.force_login(make_member(other, "engineer"))
    for name in ("schedule", "booking"):
        assert "Secret show" not in stranger.get(reverse(f"admin:scheduling_{name}_changelist")).content.decode()
    assert stranger.get(reverse("admin:scheduling_booking_change", args=[booking.pk])).status_code == 404
    for name in ("cancel", "skip", "extend_15", "start_early"):
        answer = stranger.post(
            reverse(f"admin:scheduling_booking_{name}", args=[booking.pk]), {"_form_submitted": "on"}
        )
        assert answer.status_code in {403, 404}, name
    assert "Secret show" not in stranger.get(reverse("tonight")).content.decode()
    page = stranger.post(reverse("admin:scheduling_booking_add"), form(camera, noon + HOUR, noon + 2 * HOUR))
    assert page.status_code == 200
    assert Booking.objects.get().state == State.PLANNED

    viewer = Client()
    viewer.force_login(make_member(camera.project, "viewer"))
    assert viewer.get(reverse("admin:scheduling_booking_change", args=[booking.pk])).status_code == 200
    answer = viewer.post(reverse("admin:scheduling_booking_cancel", args=[booking.pk]), {"_form_submitted": "on"})
    assert answer.status_code in {403, 404}
    assert viewer.get(reverse("import-calendar")).status_code == 403
    assert Booking.objects.get().state == State.PLANNED
    assert Client().get(reverse("tonight")).status_code == 302


def test_tonight_lists_problems_first(boss: Client, camera: Recorder) -> None:
    """R-20: one page shows tonight's problems and their reasons."""
    now = timezone.now()
    good = book(camera, now + HOUR, now + 2 * HOUR, now=now, title="Good one")
    bad = book(camera, now + 3 * HOUR, now + 4 * HOUR, now=now, title="Bad one")
    Booking.objects.filter(pk=good.pk).update(
        preflight_at=now, preflight=[{"name": "node", "is_good": True, "text": "n"}]
    )
    Booking.objects.filter(pk=bad.pk).update(
        preflight_at=now, preflight=[{"name": "source", "is_good": False, "text": "Connection refused"}]
    )
    page = boss.get(reverse("tonight")).content.decode()
    assert page.index("Bad one") < page.index("Good one")
    assert "source: Connection refused" in page
    assert "No scheduler is running" in page


def test_punctuality_is_shown_per_day(boss: Client, camera: Recorder) -> None:
    """R-19: p50, p95, p99 and the worst of dispatch and picture."""
    at = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
    for number in range(100):
        opens = at + number * timedelta(minutes=2)
        Booking.objects.create(
            recorder=camera,
            state=State.COMPLETED,
            starts_at=opens,
            ends_at=opens + timedelta(minutes=1),
            opens_at=opens,
            closes_at=opens + timedelta(minutes=1),
            dispatched_at=opens,
            late_by_seconds=number / 1000,
            first_frame_at=opens + timedelta(seconds=0.5 if number else 9),
        )
    [day] = days(at - HOUR, None)
    assert (day.count, day.without_picture, day.late_pictures) == (100, 0, 1)
    assert day.dispatch is not None
    assert day.picture is not None
    assert round(day.dispatch.p50, 4) == 0.0495
    assert day.dispatch.worst == 0.099
    assert (day.picture.p50, day.picture.worst) == (0.5, 9)
    Booking.objects.update(opens_at=timezone.now(), closes_at=timezone.now() + HOUR)
    assert "0.099" in boss.get(reverse("punctuality")).content.decode()
    assert days(at, []) == []


ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//y//EN
BEGIN:VEVENT
UID:1
SUMMARY:News <b>tonight</b>
DTSTART;TZID=Europe/Berlin:20260501T200000
DTEND;TZID=Europe/Berlin:20260501T201500
RRULE:FREQ=DAILY;COUNT=3
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Clash
DTSTART:20260502T180500Z
DTEND:20260502T190000Z
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:All day
DTSTART;VALUE=DATE:20260502
DTEND;VALUE=DATE:20260503
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n").encode()
NOW = datetime(2026, 5, 1, 8, 0, tzinfo=UTC)


def test_a_calendar_is_read_into_entries_with_their_problems(camera: Recorder) -> None:
    entries = read_calendar(ICS, camera, NOW, 28)
    assert [entry.title for entry in entries if not entry.problem] == ["News <b>tonight</b>"] * 3
    problems = {entry.title: entry.problem for entry in entries if entry.problem}
    assert "overlaps “News" in problems["Clash"]
    assert "only the day 2026-05-02" in problems["All day"]
    assert not Booking.objects.exists()

    made, left = import_entries(entries, camera, now=NOW, by="anna")
    assert (len(made), len(left)) == (3, 2)
    again = read_calendar(ICS, camera, NOW, 28)
    assert all("taken by" in entry.problem or "day" in entry.problem for entry in again)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an iCalendar file"),
        (b"\x00\xff\xfe not text", "not an iCalendar file"),
        (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", "not an iCalendar file"),
        (b"x" * (MAX_BYTES + 1), "larger than"),
        (ICS.replace(b"FREQ=DAILY;COUNT=3", b"FREQ=SECONDLY"), "every minute or second"),
        (ICS.replace(b"FREQ=DAILY;COUNT=3", b"FREQ=HOURLY"), "at most 500"),
    ],
)
def test_a_bad_calendar_is_refused_with_a_message(camera: Recorder, content: bytes, words: str) -> None:
    """S-07."""
    with pytest.raises(BadCalendar, match=words):
        read_calendar(content, camera, NOW, 92)


def test_the_import_page_shows_a_preview_before_it_books(boss: Client, camera: Recorder) -> None:
    from django.core.files.uploadedfile import SimpleUploadedFile

    day = timezone.now() + timedelta(days=3)
    ics = ICS.replace(b"20260501", f"{day:%Y%m%d}".encode()).replace(b"20260502", f"{day:%Y%m%d}".encode())
    url = reverse("import-calendar")
    upload = SimpleUploadedFile("week.ics", ics)
    page = boss.post(url, {"recorder": camera.pk, "days": 28, "file": upload}).content.decode()
    assert "News &lt;b&gt;tonight&lt;/b&gt;" in page
    assert not Booking.objects.exists()
    start = page.index('name="content" value="', page.index('name="days" value="28"')) + len('name="content" value="')
    content = page[start : page.index('"', start)]
    boss.post(url, {"recorder": camera.pk, "days": 28, "content": content, "book": "1"})
    assert Booking.objects.filter(title__startswith="News").count() == 3
    assert "Choose a file." in boss.post(url, {"recorder": camera.pk, "days": 28}).content.decode()


def test_the_feed_needs_only_its_link(camera: Recorder, boss: Client, noon: datetime) -> None:
    """The token is stored only as a hash, shown once, and replaced by a new one."""
    book(camera, noon, noon + HOUR, now=timezone.now(), title="News; tonight, at 8")
    token = make_feed(camera.project, now=timezone.now(), by="anna")
    answer = Client().get(reverse("calendar-feed", args=[token]))
    assert answer["Content-Type"].startswith("text/calendar")
    text = answer.content.decode()
    assert "SUMMARY:News\\; tonight\\, at 8" in text
    assert noon.strftime("DTSTART:%Y%m%dT%H%M%SZ") in text
    assert Client().get(reverse("calendar-feed", args=["wrong"])).status_code == 404
    assert Client().post(reverse("calendar-feed", args=[token])).status_code == 405
    make_feed(camera.project, now=timezone.now(), by="anna")
    assert feed_of(token) is None

    feed = camera.project.calendar_feed
    page = boss.post(reverse("admin:scheduling_calendarfeed_renew", args=[feed.pk]), {"_form_submitted": "on"})
    assert "HX-Redirect" in page.headers
    shown = boss.get(reverse("admin:scheduling_calendarfeed_changelist")).content.decode()
    assert "/calendar/" in shown
    assert "shown only this once" in shown


def test_saving_an_old_page_changes_only_the_edited_fields(boss: Client, camera: Recorder, noon: datetime) -> None:
    """R-12: Anna opens the page, Bert extends the booking, Anna saves a new title: Bert's end stays."""
    booking = book(camera, noon, noon + HOUR, now=timezone.now(), title="Nwes")
    shown = form(camera, noon, noon + HOUR, "News")
    shown |= {f"initial-{name}": shown[name] for name in shown if name.startswith(("starts_at", "ends_at"))}
    Booking.objects.update(ends_at=noon + 2 * HOUR, closes_at=noon + 2 * HOUR)

    assert boss.post(reverse("admin:scheduling_booking_change", args=[booking.pk]), shown).status_code == 302

    booking.refresh_from_db()
    assert (booking.title, booking.ends_at) == ("News", noon + 2 * HOUR)


def test_the_list_opens_with_current_and_next_bookings(boss: Client, camera: Recorder) -> None:
    """Two weeks of planned recordings must not hide tonight's; the rest is one click away."""
    now = timezone.now()
    for title, hours in (("Soonest", 1), ("Later", 3), ("Faraway", 72)):
        book(camera, now + hours * HOUR, now + (hours + 1) * HOUR, now=now, title=title)
    url = reverse("admin:scheduling_booking_changelist")
    page = boss.get(url).content.decode()
    assert page.index("Soonest") < page.index("Later")
    assert "Faraway" not in page
    assert "Now and next" in page
    assert "Faraway" in boss.get(f"{url}?when=all").content.decode()
    assert "Faraway" in boss.get(f"{url}?q=Faraway").content.decode()
