"""A media worker does not answer: it is not ended if the fault is on the scheduler's side."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes import workloads
from nodes.machines.roll_call import RollCall
from nodes.models import Node, Workload
from nodes.runtimes.base import Observed, RuntimeFault, Status
from nodes.workloads import poll, reachability
from nodes.workloads.media_worker_client import WorkerHangs
from station.leader_term import Term
from station.models import Alert
from testing.workloads import like_a_channel
from worker.wire.status import PlayoutStatus

pytestmark = [pytest.mark.django_db]

State = Workload.State


class Engine:
    """A runtime that answers, or one that does not."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers

    def inspect(self, name: str) -> Observed | None:
        if not self.answers:
            raise RuntimeFault("no route to host")
        return Observed(name=name, status=Status.RUNNING, identity=None)


@dataclass(frozen=True)
class Roll:
    """A roll call with a given result."""

    nodes: list[Node]
    gone: list[Node]

    def missing(self, seconds: float) -> list[Node]:
        return self.gone


@pytest.fixture
def term() -> Term:
    return Term()


@pytest.fixture(autouse=True)
def nothing_heard(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.PLAYOUT_SILENCE_SECONDS = 3.0

    def silent(workload: Workload, seconds: float) -> PlayoutStatus:
        raise WorkerHangs("timed out")

    monkeypatch.setattr(poll, "fetch_status", silent)
    monkeypatch.setattr(RollCall, "call", lambda self: Roll(list(Node.objects.all()), []))
    monkeypatch.setattr(
        reachability, "PATIENCE_SECONDS", 30.0
    )  # a busy test machine must not look like a silent engine


def node(name: str, **fields: Any) -> Node:
    fields = {"state": "up", "last_seen_at": timezone.now(), **fields}
    return Node.objects.create(name=name, address=f"tcp://{name}.example:2376", media_dir="/m", **fields)


def channel_on(where: Node, number: int, *, silent_seconds: float = 60.0) -> Workload:
    """A channel's workload that missed two checks."""
    now = timezone.now()
    made = workloads.want(
        f"channel:{number}", node=where, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=now
    )
    heard = now - timedelta(seconds=silent_seconds)
    Workload.objects.filter(pk=made.pk).update(state=State.RUNNING, heartbeat_at=heard, missed_looks=2)
    made.refresh_from_db()
    return made


def status_of(workload: Workload, **values: Any) -> PlayoutStatus:
    return PlayoutStatus(owner=workload.owner, generation=workload.generation, **values)


def alerts() -> set[str]:
    return set(Alert.objects.exclude(state="resolved").values_list("key", flat=True))


def test_a_silent_media_worker_that_answered_before_is_ended(term: Term) -> None:
    """P-04: its engine reports it as running and its port was reachable before, so it hangs."""
    workload = channel_on(node("a"), 1)
    term.memory(reachability.Heard).note(workload.pk, workload.node_id)
    poll.poll(term, workload, Engine())  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.FAILED, "unresponsive")


def test_a_media_worker_that_never_answered_this_scheduler_is_left_alone(term: Term) -> None:
    """P-05: a new leader behind a firewall must not kill every channel of the station."""
    workload = channel_on(node("a"), 1)
    poll.poll(term, workload, Engine())  # type: ignore[arg-type]
    assert workload.state == State.RUNNING
    assert alerts() == {reachability.UNREACHABLE}


def test_if_most_channels_are_silent_at_once_none_is_ended(term: Term) -> None:
    """P-05: whether they answered before or not."""
    where = node("a")
    both = [channel_on(where, number) for number in (1, 2)]
    for workload in both:
        term.memory(reachability.Heard).note(workload.pk, workload.node_id)
        poll.poll(term, workload, Engine())  # type: ignore[arg-type]
    assert {workload.state for workload in both} == {State.RUNNING}
    assert alerts() == {reachability.UNREACHABLE}


def test_a_missing_sealing_key_ends_nothing(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-05, S-05: a scheduler with other SEALING_KEYS cannot ask the media worker, but does not end it."""
    workload = channel_on(node("a"), 1)
    term.memory(reachability.Heard).note(workload.pk, workload.node_id)

    def sealed(workload: Workload, seconds: float) -> PlayoutStatus:
        raise poll.CannotOpen("no key opens it")

    monkeypatch.setattr(poll, "fetch_status", sealed)
    poll.poll(term, workload, Engine())  # type: ignore[arg-type]
    assert workload.state == State.RUNNING
    assert alerts() == {reachability.SEALED}
    poll.take_heartbeat(workload, status_of(workload, frames=1), timezone.now())
    assert alerts() == set(), "it answers again"


@pytest.mark.parametrize(("gone", "drained", "is_lost"), [("a", "", True), ("ab", "", False), ("ab", "b", True)])
def test_a_node_that_was_down_before_does_not_count_as_newly_missing(
    term: Term, gone: str, drained: str, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-05: if most recently seen nodes disappear, this machine is cut off. Drained or down nodes do not count."""
    nodes = {name: node(name, is_draining=name in drained) for name in "abc"}
    workload = channel_on(nodes["a"], 1, silent_seconds=5)
    roll = Roll(list(nodes.values()), [nodes[name] for name in gone])
    monkeypatch.setattr(RollCall, "call", lambda self: roll)
    poll.poll(term, workload, Engine(answers=False))  # type: ignore[arg-type]
    assert workload.state == (State.LOST if is_lost else State.RUNNING)
    assert alerts() == {f"node_down:{nodes['a'].pk}" if is_lost else reachability.VANISHED}
    nodes["a"].refresh_from_db()
    assert nodes["a"].state == ("down" if is_lost else "up"), "nothing else is placed on a node that is gone"


@pytest.mark.parametrize(("misses", "seconds", "is_overdue"), [(2, 5.0, True), (2, 4.0, False), (1, 9.0, False)])
def test_a_machine_that_drops_every_packet_is_lost_at_the_second_check(
    misses: int, seconds: float, is_overdue: bool
) -> None:
    """P-04: each check takes seconds; ten seconds in all."""
    workload = channel_on(node("a"), 1, silent_seconds=seconds)
    workload.missed_looks = misses
    assert workload.heartbeat_at is not None
    assert poll._is_overdue(Term(), workload, workload.heartbeat_at + timedelta(seconds=seconds)) is is_overdue


def test_the_first_missed_check_does_not_wait_for_the_engine_and_the_second_asks_all_in_parallel(
    term: Term,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-03, P-04: time-outs in sequence mean seconds off air."""
    gone, there, more = node("a"), node("b"), node("c")
    workload = channel_on(gone, 1, silent_seconds=5)
    workload.missed_looks = 0
    asked: list[str] = []

    class Dead(Engine):
        def inspect(self, name: str) -> Observed | None:
            asked.append("engine")
            return super().inspect(name)

    def silent(workload: Workload, seconds: float) -> PlayoutStatus:
        asked.append("worker")
        raise WorkerHangs("timed out")

    def call_roll(self: RollCall) -> Roll:
        asked.append("everybody")
        return Roll([gone, there, more], [gone])

    monkeypatch.setattr(poll, "fetch_status", silent)
    monkeypatch.setattr(
        reachability, "PATIENCE_SECONDS", 30.0
    )  # a busy test machine must not look like a silent engine
    monkeypatch.setattr(RollCall, "call", call_roll)
    poll.poll(term, workload, Dead(answers=False))  # type: ignore[arg-type]
    assert (asked, workload.missed_looks) == (["worker"], 1)

    poll.poll(term, workload, Dead(answers=False))  # type: ignore[arg-type]
    # The nodes are pinged while its answer is awaited, and an engine that does not answer pings is not asked.
    assert asked == ["worker", "everybody", "worker"]
    assert workload.state == State.LOST


def test_a_node_that_answers_is_not_lost_although_it_does_not_report_one_container(
    term: Term,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-05, P-06: a stuck container is restarted on its node, not moved."""
    where = node("a")
    workload = channel_on(where, 1, silent_seconds=5)
    term.memory(reachability.Heard).note(workload.pk, workload.node_id)
    monkeypatch.setattr(RollCall, "call", lambda self: Roll([where], []))
    poll.poll(term, workload, Engine(answers=False))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.FAILED, "unresponsive")


def test_a_channel_on_a_card_is_not_given_up_after_a_few_silent_seconds(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-06: no other machine can send it, and it may still be on air."""
    gone, there, more = node("a"), node("b"), node("c")
    workload = channel_on(gone, 1, silent_seconds=10)
    now = timezone.now()
    workload.spec, workload.deadline_at = {"devices": ["/dev/blackmagic/io0"]}, now + timedelta(seconds=20)
    monkeypatch.setattr(RollCall, "call", lambda self: Roll([gone, there, more], [gone]))
    poll.poll(term, workload, Engine(answers=False))  # type: ignore[arg-type]
    assert workload.state == State.RUNNING
    workload.deadline_at = now - timedelta(seconds=1)
    poll.poll(term, workload, Engine(answers=False))  # type: ignore[arg-type]
    assert (workload.state, workload.exit_reason) == (State.LOST, "node_gone")


@pytest.mark.parametrize(("age", "state"), [(0.1, State.RUNNING), (30.0, State.FAILED)])
def test_a_channel_with_hanging_storage_is_left_alone_while_it_sends_frames(
    term: Term, age: float, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-09: its main loop waits for a disk, but frames still go out."""
    workload = channel_on(node("a"), 1)
    told = status_of(workload, loop_age_seconds=60.0, last_frame_age_seconds=age, frames=100)
    monkeypatch.setattr(poll, "fetch_status", lambda workload, seconds: told)
    poll.poll(term, workload, Engine())  # type: ignore[arg-type]
    assert workload.state == state
