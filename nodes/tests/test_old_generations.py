"""A media worker that was replaced must not go on sending: one wanted generation per owner, the others are ended."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from nodes import workloads
from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from nodes.workloads import reconcile, stop
from station.clock import database_now
from station.leader_term import Term
from testing.processes import is_alive
from testing.waiting import wait_until
from testing.workloads import like_a_channel

State = Workload.State
SPEC = {"source": {"type": "test", "url": "", "size": "160x90"}, "folder": "old", "name": "old", "min_free_bytes": 1}


def want(node: Node, owner: str = "channel:1") -> Workload:
    return workloads.want(
        owner,
        node=node,
        program="capture",
        spec=SPEC,
        secret={},
        now=database_now(),
        supervision=like_a_channel(),
    )


def set_state(workload: Workload, state: str, **changes: Any) -> Workload:
    Workload.objects.filter(pk=workload.pk).update(state=state, **changes)
    workload.refresh_from_db()
    return workload


@pytest.fixture
def node(db: Any) -> Node:
    return Node.objects.create(name="n", address="unix:///n", media_dir="/m", state="up")


def test_the_database_refuses_a_second_wanted_live_generation(node: Node) -> None:
    """P-14."""
    first = set_state(want(node), State.RUNNING)
    Workload.objects.filter(pk=first.pk).update(is_wanted=False)
    second = want(node)
    assert second.generation == 2
    with pytest.raises(IntegrityError, match="workload_one_wanted"), transaction.atomic():
        Workload.objects.filter(pk=first.pk).update(is_wanted=True)


@pytest.mark.parametrize("state", [State.LOST, State.FAILED])
def test_a_replaced_generation_is_unwanted_with_its_replacement(node: Node, state: str) -> None:
    """P-14: from then on it may be told to stop, by whatever answers first."""
    old = set_state(want(node), state, exit_reason="node_gone")
    new = want(node)
    old.refresh_from_db()
    assert (old.is_wanted, new.is_wanted, new.generation) == (False, True, 2)
    assert old.events.last().note == "no longer wanted: replaced by generation 2"


def test_a_lost_one_that_resumed_meanwhile_is_not_replaced(node: Node) -> None:
    """P-06, P-14: its node came back between the decision and the row of the successor."""
    old = set_state(want(node), State.LOST)
    stale = workloads.latest(old.owner)
    set_state(old, State.RUNNING)
    calls = iter([stale])
    original = workloads.intent.latest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workloads.intent, "latest", lambda owner: next(calls, None) or original(owner))
        assert want(node).pk == old.pk
    old.refresh_from_db()
    assert old.is_wanted


def test_a_replaced_one_does_not_resume(node: Node) -> None:
    """P-14: the row was read before its successor was decided."""
    old = set_state(want(node), State.LOST)
    stale = Workload.objects.get(pk=old.pk)
    Workload.objects.filter(pk=old.pk).update(is_wanted=False)
    assert stop._resume_lost(stale, timezone.now()) is False
    old.refresh_from_db()
    assert old.state == State.LOST


@pytest.fixture
def left_behind(process_node: Node, tmp_path: Path) -> Iterator[tuple[Workload, int]]:
    """A running media worker that was lost and replaced; its engine is down. With its pid."""
    old = want(process_node)
    reconcile.reconcile(old.pk)
    old.refresh_from_db()
    assert old.state == State.RUNNING, old.error
    ids = (tmp_path / "data" / "run" / old.name / "pids.json").read_text()
    pid = int(ids.partition('"worker"')[2].partition('"pid":')[2].split(",")[0])
    ages_ago = database_now() - timedelta(minutes=10)
    set_state(old, State.LOST, exit_reason="node_gone", state_since_at=ages_ago)
    engine = {"address": f"unix://{tmp_path}/no-engine.sock", "state": Node.State.DOWN}
    Node.objects.filter(pk=process_node.pk).update(**engine)
    other = Node.objects.create(name="other", address="unix:///other", media_dir="/m", state="down")
    assert want(other).generation == 2
    yield old, pid
    Node.objects.filter(pk=process_node.pk).update(address="process", state=Node.State.UP)
    if is_alive(pid):
        os.kill(pid, signal.SIGCONT)
    process_node.refresh_from_db()


@pytest.mark.alone
def test_a_returning_worker_of_an_old_generation_is_ended_within_2_seconds(left_behind: tuple[Workload, int]) -> None:
    """P-14: by its own port, while its engine is still down, ten minutes after it was lost."""
    old, pid = left_behind
    os.kill(pid, signal.SIGSTOP)  # as if its machine were away: nothing answers
    term, began, back = Term(), time.monotonic(), 0.0
    wake = database_now()
    while not back or is_alive(pid):
        if database_now() >= wake:
            wake = reconcile.step(term, database_now()) or wake
        if not back and time.monotonic() - began > 4:
            os.kill(pid, signal.SIGCONT)
            back = time.monotonic()
        assert not back or time.monotonic() - back < 30, "it plays on"
        time.sleep(0.02)
    took = time.monotonic() - back
    print(f"the old generation ended {took:.2f} s after its return")
    term.end()
    wait_until(lambda: pools.wait_idle(5), 20, "the checks end")
    assert took < 2.0
    old.refresh_from_db()
    assert old.state == State.LOST
