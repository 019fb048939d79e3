"""A stop that a media worker or a real engine does not carry out: an alert, a more severe one, and then SIGKILL."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodes.models import Workload
from nodes.workloads.reconcile import reconcile
from nodes.workloads.stop import FORCE_AFTER
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import start_now
from scheduling.recording.lifecycle import advance, request_stop
from station.clock import database_now
from station.models import Alert, AlertDelivery, AlertRoute
from station.models.alert import Severity
from testing.media import decode
from testing.verdicts import assert_true_verdict
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker, pytest.mark.crash]

State = Workload.State


@pytest.fixture
def node(make_docker_node: Any) -> Any:
    return make_docker_node("a")


@pytest.fixture
def recording(node: Any, project: Any) -> Booking:
    """A recording on the engine, with some frames in its file."""
    recorder = Recorder.objects.create(
        name="Studio", project=project, source_type="test", picture_size="160x90", video_bitrate="200k"
    )
    AlertRoute.objects.create(name="desk", channel="mail", target="desk@tv.example", min_severity=Severity.WARNING)
    outcome = start_now(recorder, by="anna")
    assert outcome.is_good, outcome.text
    assert outcome.target is not None
    wait_until(lambda: turn().progress.get("frames", 0) > 50, 30, "it has recorded two seconds", pause=0.2)
    return outcome.target


def turn() -> Workload:
    """One turn of the loop: reconcile the media worker, then advance the booking."""
    for row in Workload.objects.to_look_at():
        reconcile(row.pk)
    for booking in Booking.objects.active().select_related("recorder__project"):
        advance(booking, database_now())
    return Workload.objects.get()


def ask_to_stop() -> None:
    booking = Booking.objects.select_related("recorder__project").get()
    assert request_stop(booking, now=database_now(), by="anna")


def is_over() -> bool:
    turn()
    return Booking.objects.get().is_over


def let_pass(seconds: float) -> None:
    """Make the row look as if its stop began that long ago and its deadline has passed."""
    now = database_now()
    Workload.objects.update(state_since_at=now - timedelta(seconds=seconds), deadline_at=now - timedelta(seconds=1))


def sent() -> list[str]:
    """The messages that were sent about the stop."""
    rows = AlertDelivery.objects.filter(alert__key__startswith="not_stopping:").order_by("pk")
    return [row.what for row in rows]


def test_a_media_worker_that_ignores_the_stop_is_killed_after_the_grace_period(node: Any, recording: Booking) -> None:
    """R-08: SIGTERM, repeated; SIGKILL twelve seconds after the first; the file is kept and can be played."""
    name = Workload.objects.get().name
    node.engine.docker("kill", "--signal", "STOP", name)  # a stopped process never handles SIGTERM; SIGKILL ends it
    ask_to_stop()

    wait_until(is_over, 60, "it is ended by force", pause=0.2)

    workload = Workload.objects.get()
    assert (workload.state, workload.exit_code, workload.exit_reason) == (State.EXITED, 137, "killed")
    assert workload.stop_signals >= 3, "asked at least twice before it was forced"
    assert workload.signalled_at is not None
    assert workload.state_since_at - workload.signalled_at >= FORCE_AFTER
    booking = Booking.objects.get()
    assert booking.state in {Booking.State.COMPLETED, Booking.State.PARTIAL}
    assert assert_true_verdict(booking, Path(node.media_dir)) >= 2.0
    wait_until(lambda: turn().removed_at, 30, "its container is cleared away", pause=0.2)
    assert node.engine.containers() == []


def test_a_stop_that_is_not_confirmed_raises_alerts_and_is_carried_out_later(
    node: Any, recording: Booking, settings: Any
) -> None:
    """R-08: neither engine nor media worker answers: a warning, then critical; once thawed, it is killed."""
    settings.NODE_CALL_SECONDS = settings.WORKER_ANSWER_SECONDS = 2.0
    name = Workload.objects.get().name
    node.engine.docker("kill", "--signal", "STOP", name)
    node.engine.freeze()
    try:
        ask_to_stop()
        turn()
        assert Workload.objects.get().state == State.STOPPING
        assert sent() == [], "no alert in the first half minute"
        for seconds, severity, words in (
            (31, Severity.WARNING, ["raised"]),
            (45, Severity.WARNING, ["raised"]),
            (125, Severity.CRITICAL, ["raised", "escalated"]),
        ):
            let_pass(seconds)
            turn()
            alert = Alert.objects.get(key=f"not_stopping:{name}")
            assert (alert.severity, sent()) == (severity, words), seconds
            assert not Booking.objects.get().is_over, "Airlock keeps trying"
    finally:
        node.engine.thaw()

    wait_until(is_over, 60, "it is ended by force", pause=0.2)

    assert Workload.objects.get().exit_reason == "killed"
    wait_until(lambda: turn().removed_at, 30, "its container is cleared away", pause=0.2)
    assert node.engine.containers() == []
    assert Alert.objects.get(key=f"not_stopping:{name}").state == Alert.State.RESOLVED
    assert sent() == ["raised", "escalated", "resolved"]


def test_a_stop_while_the_engine_is_down_is_carried_out_when_it_is_back(
    node: Any, recording: Booking, settings: Any
) -> None:
    """R-08: the engine is killed, its containers keep running (live-restore); the stop is completed on its return."""
    settings.NODE_CALL_SECONDS = 3.0
    name = Workload.objects.get().name
    node.engine.kill()
    ask_to_stop()
    turn()
    for seconds, severity in ((31, Severity.WARNING), (125, Severity.CRITICAL)):
        let_pass(seconds)
        turn()
        assert Alert.objects.get(key=f"not_stopping:{name}").severity == severity
        assert Workload.objects.get().state == State.STOPPING
    assert not Booking.objects.get().is_over

    node.engine.start()

    wait_until(is_over, 60, "it ends", pause=0.2)
    booking = Booking.objects.get()
    assert booking.state == Booking.State.COMPLETED, [str(event) for event in booking.events.all()]
    [part] = booking.parts
    assert decode(Path(node.media_dir) / booking.folder / part["file"]) >= part["frames"] > 0
    wait_until(lambda: turn().removed_at, 30, "its container is cleared away", pause=0.2)
    assert node.engine.containers() == []
    assert Alert.objects.get(key=f"not_stopping:{name}").state == Alert.State.RESOLVED
