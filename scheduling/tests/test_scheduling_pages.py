"""The pages of schedules and bookings: create, refuse with an alternative, edit, actions (R-12, R-13, R-19, R-20)."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder, Schedule
from scheduling.recording.punctuality import days
from station.clock import house_zone
from station.models import AuditEntry, Project

pytestmark = [pytest.mark.django_db]

State = Booking.State
HOUR = timedelta(hours=1)


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
    assert "1 cancelled, 1 unchanged (Two: completed)" in page


@pytest.mark.parametrize(
    "query", ["when=today", "when=next7", "when=past7", "outcome=failed", "outcome=not", "when=nonsense"]
)
def test_filters_work(boss: Client, camera: Recorder, noon: datetime, query: str) -> None:
    book(camera, noon, noon + HOUR, now=timezone.now(), title="Zebras")
    page = boss.get(f"{reverse('admin:scheduling_booking_changelist')}?{query}")
    assert page.status_code == 200
    assert ("Zebras" in page.content.decode()) is (query in {"when=next7", "when=nonsense"})


def test_a_foreign_project_sees_none_of_it(camera: Recorder, make_member: Any, noon: datetime) -> None:
    """S-01: schedules, bookings, their buttons, tonight, import; and a viewer may not press."""
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


def test_a_page_that_lay_open_changes_only_what_was_changed_on_it(
    boss: Client, camera: Recorder, noon: datetime
) -> None:
    """R-12: Anna opens it, Bert extends, Anna corrects the title: the end is Bert's."""
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
