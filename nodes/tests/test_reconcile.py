"""Reconcile: the lease on a workload, and how often a healthy workload is checked."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes import workloads
from nodes.machines.call_pools import LIMITS, NodePools, Rank
from nodes.models import Node, Workload
from nodes.workloads import reconcile
from nodes.workloads.node_checks import NodeChecks
from nodes.workloads.status_poller import StatusPoller
from station.leader_term import Term

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def node() -> Node:
    return Node.objects.create(name="n", address="process", media_dir="/tmp/n", state="up")


def want(node: Node, number: int, **fields: Any) -> Workload:
    made = workloads.want(f"x:{number}", node=node, program="capture", spec={}, secret={}, now=timezone.now())
    Workload.objects.filter(pk=made.pk).update(**fields)
    return made


def without_node_checks(node: Node) -> Term:
    """A term in which the node was just checked."""
    term = Term()
    term.memory(NodeChecks).due_at[node.pk] = 1e18
    return term


def leased(node: Node, number: int, epoch: int) -> Workload:
    return want(node, number, leased_until_at=timezone.now() + timedelta(seconds=12), lease_epoch=epoch)


def test_a_new_leader_voids_only_the_leases_of_older_leaders(node: Node) -> None:
    """R-11: a killed leader's lease delays nothing; the lease of a web request stays."""
    for number, epoch in enumerate((0, 3, 4, 5)):
        leased(node, number, epoch)

    assert reconcile.void_older_leases(Term(5)) == 2

    held = Workload.objects.filter(leased_until_at__isnull=False).values_list("owner", flat=True)
    assert sorted(held) == ["x:0", "x:3"]


def test_a_lease_that_an_older_leader_took_after_the_hand_over_is_void(node: Node) -> None:
    """R-11: a late thread of a resumed leader may take one more lease and then be killed with it."""
    term = Term(5)
    reconcile.void_older_leases(term)
    late, ours, web = (leased(node, number, epoch) for number, epoch in enumerate((4, 5, 0)))

    assert reconcile._take_lease(term, late.pk) is not None
    assert reconcile._take_lease(term, ours.pk) is None
    assert reconcile._take_lease(term, web.pk) is None


def test_a_healthy_workload_is_not_checked_more_often_when_another_one_is_urgent(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-15 needs this: checks of dozens of healthy media workers must not delay a start."""
    now = timezone.now()
    running = {"state": "running", "removed_at": None}
    just_asked, due = (want(node, number, **running) for number in (1, 2))
    want(node, 3)
    want(node, 4, **running, is_wanted=False)
    ranks: dict[str, Rank] = {}
    questions: list[int] = []
    term = without_node_checks(node)
    term.memory(reconcile.Checks).checked_at[just_asked.pk] = time.monotonic() - 0.5
    monkeypatch.setattr(
        reconcile.pools,
        "submit_soon",
        lambda node, kind, task, rank=Rank.CHECK: ranks.update({task.args[2]: rank}),
    )
    monkeypatch.setattr(StatusPoller, "ask", lambda self, term, asked, *how: questions.extend(q.pk for q in asked))

    upcoming = reconcile.step(term, now)

    assert ranks == {"x:3": Rank.RECORDING, "x:4": Rank.URGENT}
    assert questions == [due.pk]
    assert upcoming == now + timedelta(seconds=reconcile.HURRY_SECONDS)


def test_a_database_clock_that_was_set_back_delays_no_check(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-23: the last answer seems to come from the future. Checks follow the monotonic clock."""
    workload = want(node, 1, state="running", removed_at=None, heartbeat_at=timezone.now())
    questions: list[int] = []
    term = without_node_checks(node)
    monkeypatch.setattr(StatusPoller, "ask", lambda self, term, asked, *how: questions.extend(q.pk for q in asked))
    now = timezone.now()
    for seconds in (0, -600, -599):
        term.memory(reconcile.Checks).checked_at.update({workload.pk: time.monotonic() - 2.5})
        reconcile.step(term, now + timedelta(seconds=seconds))
    assert questions == [workload.pk] * 3


def test_a_lease_that_ends_later_than_any_lease_is_void(node: Node) -> None:
    """R-23: its holder died, and the database's clock was set back since."""
    made = want(node, 1, leased_until_at=timezone.now() + timedelta(minutes=10), lease_epoch=0)
    assert reconcile._take_lease(Term(5), made.pk) is not None


def test_a_lost_workload_on_a_node_that_is_down_waits_until_the_node_is_back(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-05: it is not checked twice a second for days, but at once when the node is back."""
    now = timezone.now()
    want(node, 1, state="lost", removed_at=None, state_since_at=now - timedelta(hours=1))
    just_lost = {"state": "lost", "removed_at": None, "state_since_at": now - timedelta(seconds=20)}
    asked: list[str] = []
    monkeypatch.setattr(reconcile, "LEFT_BEHIND_SECONDS", 3600.0)
    monkeypatch.setattr(reconcile, "HURRY_SECONDS", 0.0)
    term = without_node_checks(node)
    monkeypatch.setattr(
        reconcile.pools, "submit_soon", lambda node, kind, task, rank=Rank.CHECK: asked.append(task.args[2])
    )
    for state, times in (("down", 1), ("down", 1), ("up", 2), ("up", 3)):
        Node.objects.update(state=state)
        reconcile.step(term, now)
        assert len(asked) == times, state
    Node.objects.update(state="down")
    want(node, 2, **just_lost)
    asked.clear()
    for _ in range(3):
        reconcile.step(term, now)
    assert asked.count("x:2") == 3, "it may still send at the same time as the next generation"


def test_a_start_does_not_queue_behind_checks() -> None:
    pools, gate, done = NodePools(), threading.Event(), threading.Event()
    for number in range(20):
        pools.submit(1, f"look:{number}", gate.wait)

    pools.submit(1, "start", done.set, rank=Rank.URGENT)

    try:
        assert done.wait(10)
        assert not pools.wait_idle(0)
    finally:
        gate.set()
        pools.wait_idle(10)
        pools.close()


def test_every_node_finds_a_thread_although_all_of_a_lane_hang() -> None:
    """P-18: more silent machines than the lane has threads; a recording on another machine starts at once."""
    pools, gate, done = NodePools(), threading.Event(), threading.Event()
    threads, per_node = LIMITS[Rank.RECORDING]
    for number in range(threads * per_node):
        pools.submit(2 + number // per_node, f"start:{number}", gate.wait, rank=Rank.RECORDING)

    pools.submit(1, "start", done.set, rank=Rank.RECORDING)

    try:
        assert done.wait(10)
    finally:
        gate.set()
        assert pools.wait_idle(10)
        pools.close()


def test_a_task_in_line_is_begun_although_the_one_before_could_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-18: the leader's thread does not wait, and a machine without room for a thread loses no other task."""
    pools, done = NodePools(), threading.Event()
    submit, refused = pools.submit, list[str]()

    def first_refused(node_id: int, kind: str, task: Any, **how: Any) -> Any:
        if not refused:
            refused.append(kind)
            raise RuntimeError("can't start new thread")
        return submit(node_id, kind, task, **how)

    monkeypatch.setattr(pools, "submit", first_refused)
    pools.submit_soon(1, "first", lambda: None)
    pools.submit_soon(1, "second", done.set)

    assert pools.wait_idle(10)
    assert done.is_set()
    assert refused == ["first"]
    pools.close()
