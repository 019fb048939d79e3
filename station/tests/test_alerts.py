"""Alerts: raised once, updated, acknowledged, resolved; delivered by mail and signed webhook with retries and a log."""

import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import connection, connections
from django.utils import timezone

from station.alerts import acknowledge, raise_alert, resolve_alert, sending
from station.leader_term import Term
from station.models import Alert, AlertDelivery, AlertRoute
from station.models.alert import Severity
from station.sealing import seal
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.database]


class Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((dict(self.headers), body))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def hook() -> Iterator[Any]:
    """A real HTTP server that records its requests and replies with the statuses in `answers`."""
    server = HTTPServer(("127.0.0.1", 0), Hook)
    server.seen, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def webhook(hook: Any, settings: Any) -> AlertRoute:
    settings.WEBHOOK_ALLOWED_NETWORKS = ["127.0.0.0/8"]
    return AlertRoute.objects.create(
        name="hook",
        channel="webhook",
        target=f"http://127.0.0.1:{hook.server_port}/alerts?x=1",
        secret_sealed=seal({"signing": "shared secret"}),
    )


def raised(**fields: Any) -> Alert:
    return raise_alert("fire", "Fire in studio A", now=timezone.now(), **fields)


def test_raising_twice_is_one_alert_seen_twice() -> None:
    first = raised()
    second = raise_alert("fire", "Fire in studio A and B", now=timezone.now())

    assert first.pk == second.pk
    assert Alert.objects.get().times_seen == 2
    assert Alert.objects.get().title == "Fire in studio A and B"


def test_an_alert_without_news_is_written_every_ten_seconds_only() -> None:
    """A source without signal is checked several times a second."""
    now = timezone.now()
    for tenths in range(300):
        raise_alert("fire", "Fire in studio A", now=now + timedelta(seconds=tenths / 10))
    alert = Alert.objects.get()
    assert alert.times_seen == 3
    raise_alert("fire", "Fire in studio A", now=alert.last_seen_at - timedelta(minutes=10))
    assert Alert.objects.get().times_seen == 4, "a clock that was set back does not silence it"
    raised(severity=Severity.CRITICAL)
    assert Alert.objects.get().severity == Severity.CRITICAL


def test_a_resolved_problem_that_returns_later_is_a_new_alert() -> None:
    earlier = timezone.now() - timedelta(minutes=16)
    raise_alert("fire", "Fire in studio A", now=earlier)
    assert resolve_alert("fire", now=earlier)
    assert resolve_alert("fire", now=earlier) is False
    raised()

    assert list(Alert.objects.order_by("id").values_list("state", flat=True)) == ["resolved", "open"]


def test_an_acknowledged_alert_is_still_updated() -> None:
    alert = raised()
    assert acknowledge(alert, now=timezone.now(), by="anna")
    assert acknowledge(alert, now=timezone.now(), by="bert") is False
    raised(text="It spreads.")

    assert Alert.objects.get().state == "acknowledged"
    assert Alert.objects.get().times_seen == 2


def test_mail_goes_to_routes_of_the_severity_and_project(project: Any) -> None:
    for name, severity, of in [("all", 10, None), ("critical", 30, None), ("news", 20, project)]:
        AlertRoute.objects.create(
            name=name, channel="mail", target=f"{name}@tv.example", min_severity=severity, project=of
        )
    raised(severity=Severity.WARNING, project=project, text="It burns.")

    sending.send_due(timezone.now())

    assert sorted(message.to[0] for message in mail.outbox) == ["all@tv.example", "news@tv.example"]
    assert mail.outbox[0].subject == "[Airlock] raised: Fire in studio A"
    assert "It burns." in mail.outbox[0].body


def test_a_message_is_sent_again_only_when_the_alert_gets_worse_or_is_resolved() -> None:
    AlertRoute.objects.create(name="all", channel="mail", target="all@tv.example", min_severity=10)
    raised()
    raised()
    raised(severity=Severity.CRITICAL)
    raised(severity=Severity.CRITICAL)
    resolve_alert("fire", now=timezone.now())

    sending.send_due(timezone.now())

    assert [message.subject.split("]")[1].split(":")[0].strip() for message in mail.outbox] == [
        "raised",
        "escalated",
        "resolved",
    ]


def test_a_webhook_is_signed_and_carries_the_facts(hook: Any, webhook: AlertRoute) -> None:
    alert = raised(text="It burns.")

    sending.send_due(timezone.now())

    [(headers, body)] = hook.seen
    expected = hmac.new(b"shared secret", body, hashlib.sha256).hexdigest()
    assert headers["X-Airlock-Signature"] == f"sha256={expected}"
    assert headers["Idempotency-Key"] == f"{alert.pk}-raised-{webhook.pk}"
    payload = json.loads(body)
    assert (payload["event"], payload["key"], payload["severity"]) == ("raised", "fire", "warning")
    assert AlertDelivery.objects.get().outcome == "sent"
    assert AlertDelivery.objects.get().sent_at


def test_a_failing_webhook_is_retried_with_growing_pauses_and_then_given_up(hook: Any, webhook: AlertRoute) -> None:
    hook.answers = [500] * 20
    raised()
    waits = []
    for _ in range(7):
        row = AlertDelivery.objects.get()
        sending.send(row, timezone.now())
        row.refresh_from_db()
        if row.next_attempt_at:
            waits.append(round((row.next_attempt_at - timezone.now()).total_seconds(), -1))
    row.refresh_from_db()

    assert waits == [10, 30, 60, 300, 900, 3600]
    assert (row.outcome, row.attempts, row.next_attempt_at) == ("given_up", 7, None)
    assert row.last_error == "127.0.0.1 answered 500"
    assert len(hook.seen) == 7


def test_a_redirect_is_not_followed(hook: Any, webhook: AlertRoute) -> None:
    """S-09."""
    hook.answers = [302]
    raised()

    sending.send_due(timezone.now())

    assert AlertDelivery.objects.get().last_error == "127.0.0.1 answered 302"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "0.0.0.0", "[::ffff:127.0.0.1]"]
)
def test_a_webhook_cannot_reach_this_machine_or_the_metadata_service(host: str) -> None:
    """S-09: the call is refused before a byte is sent."""
    AlertRoute.objects.create(name="hook", channel="webhook", target=f"http://{host}:9/x", min_severity=10)
    raised()

    sending.send_due(timezone.now())

    error = AlertDelivery.objects.get().last_error
    assert "not allowed" in error or "has no address" in error


@pytest.mark.parametrize(
    "target",
    ["ftp://x.example/", "https://", "https://user:pass@x.example/", "javascript:alert(1)", "https://x.example:99999/"],
)
def test_a_bad_webhook_address_is_refused_in_the_form(target: str) -> None:
    """S-07."""
    with pytest.raises(ValidationError):
        AlertRoute(name="hook", channel="webhook", target=target).full_clean()


def test_two_schedulers_send_a_message_once(hook: Any, webhook: AlertRoute) -> None:
    raised()
    row = AlertDelivery.objects.get()
    twin = AlertDelivery.objects.get()

    assert sending.send(row, timezone.now()) is True
    assert sending.send(twin, timezone.now()) is False
    assert len(hook.seen) == 1


def test_a_message_whose_sender_was_killed_is_sent_again_when_its_lease_ends(hook: Any, webhook: AlertRoute) -> None:
    raised()
    AlertDelivery.objects.update(attempts=1, next_attempt_at=timezone.now() + sending.LEASE)

    assert sending.send_due(timezone.now()) == 0
    assert hook.seen == []
    sending.send_due(timezone.now() + sending.LEASE + timedelta(seconds=1))

    assert len(hook.seen) == 1


@pytest.mark.django_db(transaction=True)
def test_forty_raises_at_once_are_one_alert() -> None:
    barrier = threading.Barrier(10)

    def go() -> None:
        barrier.wait()
        for number in range(4):
            raised(text=f"{threading.get_ident()} {number}")
        connections.close_all()

    threads = [threading.Thread(target=go) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Alert.objects.count() == 1
    assert Alert.objects.get().times_seen == 40
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_the_step_sends_in_the_background_and_a_dead_target_delays_nobody(hook: Any, webhook: AlertRoute) -> None:
    """The rule of A-04 applies to alerts too: the loop does not wait for sending."""
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    AlertRoute.objects.create(name="silent", channel="webhook", target=f"http://127.0.0.1:{silent.getsockname()[1]}/")
    raised()
    began = time.monotonic()

    term = Term()
    assert sending.step(term, timezone.now()) is not None

    assert time.monotonic() - began < 5
    wait_until(lambda: hook.seen, 30, "the other route gets its message")
    silent.close()
    wait_until(lambda: AlertDelivery.objects.get(route__name="silent").attempts, 30, "the silent route was tried")
    thread = term.memory(sending.Sender).thread
    assert thread is not None
    thread.join(30)
