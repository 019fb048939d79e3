"""A source that flaps is one alert that counts, many troubles of one cause are one alert, and mails are limited."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from station.alerts import Case, acknowledge, raise_alert, raise_together, resolve, resolve_alert, sending
from station.models import Alert, AlertDelivery, AlertRoute
from station.models.alert import Severity

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Alert.State


@pytest.fixture
def route() -> AlertRoute:
    return AlertRoute.objects.create(name="desk", channel="mail", target="desk@tv.example", min_severity=10)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> "Clock":
    return Clock(monkeypatch)


class Clock:
    """The database's clock as the sender reads it; `later` moves it on and sends what is due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = timezone.now()
        monkeypatch.setattr(sending, "database_now", lambda: self.now)

    def later(self, **span: float) -> datetime:
        self.now += timedelta(**span)
        while sending.send_due(self.now):
            pass
        return self.now


def subjects() -> list[str]:
    return [message.subject.removeprefix("[Airlock] ") for message in mail.outbox]


def lose(now: datetime, **fields: Any) -> Alert:
    return raise_alert("no_signal:1", "Studio A: no signal", now=now, **fields)


def test_a_source_that_flaps_for_an_hour_is_one_alert_and_four_mails(route: AlertRoute, clock: Clock) -> None:
    """U-12: raised, resolved, returned; then nothing until it has been quiet for a while."""
    for _ in range(60):
        lose(clock.now)
        clock.later(seconds=20)
        assert resolve_alert("no_signal:1", now=clock.now, note="the signal is back")
        clock.later(seconds=40)

    alert = Alert.objects.get()
    assert (alert.times_returned, alert.state) == (59, State.RESOLVED)
    assert subjects() == [
        "raised: Studio A: no signal",
        "resolved: Studio A: no signal",
        "returned: Studio A: no signal",
    ]

    clock.later(minutes=16)

    assert subjects()[3:] == ["resolved: Studio A: no signal"]
    assert "came back 59 times" in mail.outbox[3].body
    assert AlertDelivery.objects.count() == 4


def test_after_a_quiet_time_the_same_trouble_is_a_new_alert(route: AlertRoute, clock: Clock) -> None:
    """U-12."""
    lose(clock.now)
    resolve_alert("no_signal:1", now=clock.now)

    lose(clock.later(minutes=16))

    assert list(Alert.objects.order_by("id").values_list("state", flat=True)) == ["resolved", "open"]


def test_what_a_person_resolved_and_comes_back_is_a_new_alert(route: AlertRoute, clock: Clock) -> None:
    """U-12: the person must learn that it is not over."""
    alert = lose(clock.now)
    assert resolve(alert, now=clock.now, by="anna", note="by hand")

    lose(clock.later(seconds=30))

    assert Alert.objects.count() == 2


def test_an_acknowledged_alert_that_comes_back_is_still_acknowledged(clock: Clock) -> None:
    """U-12."""
    alert = lose(clock.now)
    acknowledge(alert, now=clock.now, by="anna")
    resolve_alert("no_signal:1", now=clock.now)

    alert = lose(clock.later(seconds=30))

    assert alert.state == State.ACKNOWLEDGED
    resolve_alert("no_signal:1", now=clock.now)
    assert acknowledge(Alert.objects.get(), now=clock.now, by="bert") is False, "it is resolved"


def test_one_that_comes_back_worse_is_told_at_once(route: AlertRoute, clock: Clock) -> None:
    """U-12: damping never hides that something got worse."""
    for _ in range(3):
        lose(clock.now)
        clock.later(seconds=10)
        resolve_alert("no_signal:1", now=clock.now)
        clock.later(seconds=10)
    lose(clock.now, severity=Severity.CRITICAL)
    clock.later(seconds=1)

    assert subjects()[-1] == "escalated: Studio A: no signal"


def test_damping_can_be_switched_off(settings: Any, clock: Clock) -> None:
    settings.ALERT_DAMPING = timedelta(0)
    lose(clock.now)
    resolve_alert("no_signal:1", now=clock.now)
    lose(clock.now)

    assert Alert.objects.count() == 2


def missed(numbers: range, project: Any = None) -> list[Case]:
    return [
        Case(f"missed:booking:{number}", f"News {number} was missed", "its window closed", f"booking:{number}", project)
        for number in numbers
    ]


def tell(cases: list[Case], now: datetime) -> None:
    raise_together(
        "missed", cases, now=now, severity=Severity.CRITICAL, many="{count} bookings were missed", text="See Bookings."
    )


def test_800_missed_at_once_are_one_alert_with_the_count(route: AlertRoute, clock: Clock) -> None:
    """U-14: worked off in batches, the last of one row."""
    for first in range(0, 799, 47):
        tell(missed(range(first, min(first + 47, 799))), clock.now)
        clock.later(seconds=1)
    tell(missed(range(799, 800)), clock.now)
    clock.later(minutes=1)

    alert = Alert.objects.get()
    assert (alert.title, alert.times_seen) == ("800 bookings were missed", 800)
    assert subjects() == ["raised: 800 bookings were missed"]
    lines = alert.text.splitlines()
    assert lines[0] == "See Bookings."
    assert lines[1] == "News 0 was missed: its window closed"
    assert lines[-1] == "… and 780 more."
    assert len(lines) == 22


def test_two_missed_are_two_alerts_with_their_bookings() -> None:
    """U-14: few of one cause keep an alert and a subject of their own."""
    tell(missed(range(2)), timezone.now())

    assert set(Alert.objects.values_list("key", "subject")) == {
        ("missed:booking:0", "booking:0"),
        ("missed:booking:1", "booking:1"),
    }


def test_many_that_come_one_by_one_are_summarised_too(clock: Clock) -> None:
    """U-14: four of their own, the others in one."""
    for number in range(50):
        tell(missed(range(number, number + 1)), clock.now)

    assert Alert.objects.count() == 5
    assert Alert.objects.get(key__startswith="missed:many").title == "46 bookings were missed"


def test_each_project_has_its_own_summary(project: Any) -> None:
    """U-14, S-01: an alert is sent to and seen by its own project."""
    tell([*missed(range(10)), *missed(range(10, 30), project)], timezone.now())

    titles = Alert.objects.order_by("times_seen").values_list("title", "project")
    assert list(titles) == [("10 bookings were missed", None), ("20 bookings were missed", project.pk)]


def test_the_next_storm_is_a_new_summary(route: AlertRoute, clock: Clock) -> None:
    """U-14: an open summary of yesterday does not hide today's."""
    tell(missed(range(10)), clock.now)
    clock.later(hours=12)
    tell(missed(range(10, 30)), clock.now)
    clock.later(minutes=1)

    assert subjects() == ["raised: 10 bookings were missed", "raised: 20 bookings were missed"]


def test_a_route_gets_at_most_its_mails_per_hour_and_learns_of_everything(
    route: AlertRoute, clock: Clock, settings: Any
) -> None:
    """U-13: half of the limit one by one, then digests; nothing is left out."""
    settings.ALERT_MAILS_PER_HOUR = 20
    for number in range(300):
        raise_alert(f"trouble:{number}", f"Trouble {number}", now=clock.now)
        clock.later(seconds=12)

    assert len(mail.outbox) <= 20
    assert subjects()[:10] == [f"raised: Trouble {number}" for number in range(10)]
    assert subjects()[10:12] == ["raised: Trouble 10", "30 messages: 30 raised"]
    clock.later(minutes=7)
    told = "\n".join(f"{message.subject}\n{message.body}" for message in mail.outbox).splitlines()
    assert all(any(line.endswith(f"raised: Trouble {number}") for line in told) for number in range(300))
    assert not AlertDelivery.objects.exclude(outcome="sent").exists()


def test_the_limit_is_per_route_and_lets_webhooks_through(route: AlertRoute, clock: Clock, settings: Any) -> None:
    """U-13: one busy desk does not silence another."""
    settings.ALERT_MAILS_PER_HOUR = 4
    for number in range(5):
        raise_alert(f"trouble:{number}", f"Trouble {number}", now=clock.now)
    clock.later(seconds=1)
    AlertRoute.objects.create(name="other", channel="mail", target="other@tv.example", min_severity=30)
    raise_alert("fire", "Fire", now=clock.now, severity=Severity.CRITICAL)
    clock.later(seconds=1)

    assert [message.to for message in mail.outbox] == [["desk@tv.example"]] * 3 + [["other@tv.example"]]


def test_a_digest_that_cannot_be_sent_is_tried_again(route: AlertRoute, clock: Clock, monkeypatch: Any) -> None:
    """U-13."""
    from django.conf import settings

    monkeypatch.setattr(settings, "ALERT_MAILS_PER_HOUR", 2)
    for number in range(6):
        raise_alert(f"trouble:{number}", f"Trouble {number}", now=clock.now)
    real, calls = sending.send_mail, []

    def send_mail(subject: str, *args: Any) -> None:
        calls.append(subject)
        if len(calls) == 2:
            raise OSError("mail server away")
        real(subject, *args)

    monkeypatch.setattr(sending, "send_mail", send_mail)
    clock.later(seconds=1)
    assert AlertDelivery.objects.filter(outcome="failed").count() == 5
    clock.later(minutes=1)

    assert subjects() == ["raised: Trouble 0", "5 messages: 5 raised"]
