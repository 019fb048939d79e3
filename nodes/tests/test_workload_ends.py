"""How a workload ends before, during and after its start, and the recorded reason (R-11)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes import workloads
from nodes.machines.roll_call import Roll, RollCall
from nodes.models import Node, Workload
from nodes.runtimes.base import Launch, Observed, Status, Unreachable
from nodes.workloads import poll, reachability, start, stop
from nodes.workloads.media_worker_client import WorkerSilent
from station.leader_term import Term
from station.models import Alert
from station.models.alert import Severity
from testing.workloads import like_a_channel

pytestmark = [pytest.mark.django_db]

State = Workload.State


class Engine:
    """A runtime with one container, running or ended; or one that does not answer."""

    def __init__(self, exit_code: int | None = None, *, answers: bool = True) -> None:
        self.answers = answers
        self.exit_code = exit_code
        self.signals: list[bool] = []

    def inspect(self, name: str) -> Observed | None:
        if not self.answers:
            raise Unreachable("no route to host")
        status = Status.RUNNING if self.exit_code is None else Status.EXITED
        return Observed(name=name, status=status, identity=None, exit_code=self.exit_code)

    def start(self, launch: Launch) -> Observed:
        seen = self.inspect(launch.name)
        assert seen is not None
        return seen

    def stop(self, name: str, *, force: bool = False) -> None:
        self.signals.append(force)

    def check_ours(self, observed: Observed) -> None:
        return

    def logs(self, name: str, lines: int = 100) -> str:
        return ""


def make(program: str = "capture", **fields: Any) -> Workload:
    now = timezone.now()
    node = Node.objects.create(name="a", address="unix:///a", media_dir="/m", state="up")
    policy = like_a_channel() if program == "playout" else None
    made = workloads.want("booking:1", node=node, program=program, spec={}, secret={}, now=now, supervision=policy)
    Workload.objects.filter(pk=made.pk).update(**fields)
    made.refresh_from_db()
    return made


def past(seconds: float = 1.0) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def test_a_workload_that_is_no_longer_wanted_before_its_start_is_never_started() -> None:
    workload = make(is_wanted=False)
    stop.stop(workload, Engine())  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.EXITED, "never_started")


def test_a_workload_that_is_not_started_in_time_fails() -> None:
    """R-11: no workload stays in requested; its owner requests a new one."""
    workload = make(deadline_at=past())
    start.start(workload, Engine())  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.FAILED, "not_started")
    assert workload.error == "It did not start in time."


@pytest.mark.parametrize(
    ("program", "node_state", "ends_as"),
    [("playout", "down", State.FAILED), ("playout", "up", State.STARTING), ("capture", "down", State.STARTING)],
)
def test_only_a_channel_gives_up_its_start_on_a_node_that_went_down(
    program: str, node_state: str, ends_as: State
) -> None:
    """P-05: it moves on at once instead of at its deadline. A recording has no other node: it goes on trying."""
    workload = make(program)
    Node.objects.update(state=node_state)
    start.start(workload, Engine(answers=False))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (ends_as, "node_gone" if ends_as == State.FAILED else "")
    assert "no route to host" in workload.error


def test_a_starting_media_worker_has_no_missed_checks_until_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-04: checks before its first answer do not count."""

    def silent(workload: Workload) -> Any:
        raise WorkerSilent("connection refused")

    monkeypatch.setattr(start, "fetch_status", silent)
    monkeypatch.setattr(start, "FIRST_ANSWER_SECONDS", 0.0)
    workload, engine = make(), Engine()
    for _ in range(5):
        start.start(workload, engine)  # type: ignore[arg-type]
        workload.refresh_from_db()
        assert (workload.state, workload.missed_looks, workload.heartbeat_at) == (State.STARTING, 0, None)
    assert workload.deadline_at is not None
    assert workload.deadline_at - workload.state_since_at == Workload.DEADLINES[State.STARTING]

    Workload.objects.update(deadline_at=past())
    workload.refresh_from_db()
    start.start(workload, engine)  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.FAILED, "not_started")


@pytest.mark.parametrize(("silent_seconds", "looks"), [(50.0, None), (120.0, 3), (160.0, 2)])
def test_a_silent_channel_is_given_up_at_its_third_missed_check(
    monkeypatch: pytest.MonkeyPatch, settings: Any, silent_seconds: float, looks: int | None
) -> None:
    """P-04: not before the allowed silence is over; after 1.5 times as long, two missed checks are enough."""

    def silent(workload: Workload, seconds: float | None = None) -> Any:
        raise WorkerSilent("connection refused")

    settings.PLAYOUT_SILENCE_SECONDS = 100.0  # so that the duration of this test does not matter
    monkeypatch.setattr(poll, "fetch_status", silent)
    workload, engine = make("playout", state=State.RUNNING, heartbeat_at=past(silent_seconds)), Engine()
    term = Term()
    monkeypatch.setattr(RollCall, "call", lambda self: Roll([]))  # no node is missing
    term.memory(reachability.Heard).note(workload.pk, workload.node_id)

    taken = 0
    while workload.state == State.RUNNING and taken < 6:
        poll.poll(term, workload, engine)  # type: ignore[arg-type]
        taken += 1

    assert taken == (looks or 6)
    assert workload.missed_looks == taken
    if looks:
        assert (workload.state, workload.exit_reason) == (State.FAILED, "unresponsive")


def test_a_workload_that_ends_with_code_0_before_its_first_answer_has_exited() -> None:
    workload = make()
    start.start(workload, Engine(exit_code=0))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_code) == (State.EXITED, 0)


def test_a_workload_that_is_no_longer_wanted_during_its_start_is_stopped() -> None:
    workload, engine = make(state=State.STARTING, is_wanted=False), Engine()
    stop.stop(workload, engine)  # type: ignore[arg-type]
    assert workload.state == State.STOPPING
    assert engine.signals == [False], "stopped without force"


def test_a_recording_that_ends_by_itself_at_its_end_time_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-08: it needs no stop command."""

    def silent(workload: Workload, seconds: float | None = None) -> Any:
        raise WorkerSilent("connection refused")

    monkeypatch.setattr(poll, "fetch_status", silent)
    workload = make(state=State.RUNNING)
    poll.poll(Term(), workload, Engine(exit_code=0))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.EXITED, "done")


def test_a_stop_waits_for_an_unreachable_engine_and_raises_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-08: it keeps trying while the node may come back; a warning first, critical after two minutes."""
    monkeypatch.setattr(stop, "tell", lambda workload, path, body: None)
    workload, away = make(state=State.RUNNING, is_wanted=False), Engine(answers=False)
    stop.stop(workload, away)  # type: ignore[arg-type]
    assert not Alert.objects.exists(), "no alert in the first half minute"

    for seconds, severity in ((31, Severity.WARNING), (121, Severity.CRITICAL)):
        fields = {"state_since_at": past(seconds), "deadline_at": past()}
        Workload.objects.update(**fields)
        workload.refresh_from_db()
        stop.stop(workload, away)  # type: ignore[arg-type]
        workload.refresh_from_db()
        assert workload.state == State.STOPPING
        assert workload.deadline_at is not None
        assert workload.deadline_at > timezone.now(), "the alert is updated in half a minute"
        [alert] = Alert.objects.all()
        assert (alert.key, alert.severity) == (f"not_stopping:{workload.name}", severity)
        assert "no route to host" in alert.text

    stop.stop(workload, Engine(exit_code=137))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.EXITED, "killed")
    assert Alert.objects.get().state == Alert.State.RESOLVED


def test_a_stop_on_a_node_that_is_down_ends_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-08, R-11: if the node comes back, the workload is stopped then."""
    monkeypatch.setattr(stop, "tell", lambda workload, path, body: None)
    workload = make(state=State.STOPPING, is_wanted=False, deadline_at=past())
    Node.objects.update(state=Node.State.DOWN)
    stop.stop(workload, Engine(answers=False))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.LOST, "node_gone")
    back = Engine()
    stop.clean_up(workload, back)  # type: ignore[arg-type]
    assert back.signals == [False]
