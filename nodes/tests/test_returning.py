"""A lost node is back, or only its engine is down: which of its workloads continue, and which are ended."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes import workloads
from nodes.models import Node, Workload
from nodes.runtimes.base import Observed, Status, Unreachable
from nodes.workloads import stop
from testing.workloads import like_a_channel

pytestmark = [pytest.mark.django_db]

State = Workload.State


class Engine:
    """A runtime on which the container is running, or one that does not answer."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers
        self.stopped: list[str] = []

    def inspect(self, name: str) -> Observed | None:
        if not self.answers:
            raise Unreachable("no route to host")
        return Observed(name=name, status=Status.RUNNING, identity=None)

    def check_ours(self, observed: Observed) -> None:
        return

    def stop(self, name: str, *, force: bool = False) -> None:
        self.stopped.append(name)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests sent to the media workers' own ports."""
    words: list[str] = []
    monkeypatch.setattr(stop, "tell", lambda workload, command, kind: words.append(command.path))
    return words


def lost(program: str = "playout", **changes: Any) -> Workload:
    """A lost workload: neither it nor its node answers, but it is still running there."""
    now = timezone.now()
    node, _ = Node.objects.get_or_create(name="a", address="unix:///a", media_dir="/m", state="up")
    policy = like_a_channel() if program == "playout" else None
    made = workloads.want("channel:1", node=node, program=program, spec={}, secret={}, now=now, supervision=policy)
    fields = {"state": State.LOST, "exit_reason": "node_gone", "error": "gone", "missed_looks": 9, **changes}
    Workload.objects.filter(pk=made.pk).update(**fields)
    made.refresh_from_db()
    return made


def test_a_channel_that_was_not_replaced_continues_when_its_node_is_back() -> None:
    """P-06: the end of a network fault is no reason to take the channel off air."""
    workload, engine = lost(), Engine()
    stop.clean_up(workload, engine)  # type: ignore[arg-type]
    workload.refresh_from_db()
    assert (workload.state, workload.exit_reason, workload.error) == (State.RUNNING, "", "")
    assert workload.deadline_at is not None
    assert workload.deadline_at > timezone.now()
    assert engine.stopped == []


@pytest.mark.parametrize("why", ["it was replaced", "not wanted", "a recording", "its port is given away"])
def test_a_workload_that_is_not_needed_is_ended_when_its_node_is_back(why: str) -> None:
    """P-05, R-21: only one sender and one writer at a time."""
    workload = lost("capture" if why == "a recording" else "playout", is_wanted=why != "not wanted")
    if why == "it was replaced":
        workloads.want(
            "channel:1",
            node=workload.node,
            program="playout",
            supervision=like_a_channel(),
            spec={},
            secret={},
            now=timezone.now(),
        )
    if why == "its port is given away":
        other = workloads.want(
            "channel:2",
            node=workload.node,
            program="playout",
            supervision=like_a_channel(),
            spec={},
            secret={},
            now=timezone.now(),
        )
        Workload.objects.filter(pk=other.pk).update(control_port=workload.control_port)
    engine = Engine()
    stop.clean_up(workload, engine)  # type: ignore[arg-type]
    workload.refresh_from_db()
    assert workload.state == State.LOST
    assert engine.stopped == [workload.name]


@pytest.mark.parametrize(("is_wanted", "words"), [(False, ["/stop"]), (True, [])])
def test_a_lost_media_worker_is_asked_to_stop_only_if_it_is_not_wanted(
    is_wanted: bool, words: list[str], sent: list[str]
) -> None:
    """P-05, P-06: its engine is down, but the media worker may answer."""
    stop.clean_up(lost(is_wanted=is_wanted), Engine(answers=False))  # type: ignore[arg-type]
    assert sent == words


def test_a_stop_reaches_the_media_worker_although_its_engine_is_down(sent: list[str]) -> None:
    """P-05: a moved or stopped channel must not go on sending (live-restore)."""
    workload = lost(state=State.RUNNING, is_wanted=False, deadline_at=timezone.now() + timedelta(seconds=30))
    stop.stop(workload, Engine(answers=False))  # type: ignore[arg-type]
    assert sent == ["/stop"]
    assert workload.state == State.STOPPING
