"""The checks of nodes that the loop makes every few seconds: one call each, and nothing written without news."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodes.machines import health
from nodes.machines.call_pools import pools
from nodes.models import Node
from nodes.workloads import node_checks
from nodes.workloads.node_checks import NodeChecks, check_due, own_label
from station.clock import database_now
from station.leader_term import Term
from testing.standin_engine import StandInEngine
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True)]

LIST = "/containers/json"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[StandInEngine]:
    engine = StandInEngine(tmp_path / "e.sock")
    yield engine
    engine.close()


@pytest.fixture
def node(engine: StandInEngine, tmp_path: Path) -> Node:
    """It answered before: its version is known and its disk was just measured."""
    return make_node("near", f"unix://{tmp_path}/e.sock")


def make_node(name: str, address: str) -> Node:
    now = database_now()
    known = {"engine_version": "Docker stand-in", "last_seen_at": now, "disk_checked_at": now}
    return Node.objects.create(name=name, address=address, media_dir="/m", state="up", **known)


@pytest.fixture
def check() -> Callable[..., Term]:
    def check_now(term: Term | None = None) -> Term:
        """Check all nodes, and wait for what that begins."""
        term = term or Term()
        term.memory(NodeChecks).due_at.clear()
        check_due(term, list(Node.objects.all()), database_now())
        assert pools.wait_idle(20)
        return term

    return check_now


def test_the_nodes_that_are_due_are_checked_and_the_next_time_is_known(
    process_node: Node, tmp_path: Path, settings: Any
) -> None:
    silent = Node.objects.create(name="far", address=f"unix://{tmp_path}/no.sock", media_dir="/m", state="up")
    Node.objects.update(last_seen_at=None, engine_version="")
    term, now = Term(), timezone.now()

    upcoming = check_due(term, list(Node.objects.all()), now)

    assert upcoming is not None
    assert 0 < upcoming <= settings.NODE_CHECK_SECONDS
    wait_until(lambda: Node.objects.get(pk=silent.pk).missed_checks == 1, 10, "the silent one was checked")
    wait_until(lambda: Node.objects.get(pk=process_node.pk).last_seen_at, 10, "the other one was checked")
    assert Node.objects.get(pk=process_node.pk).missed_checks == 0
    check_due(term, list(Node.objects.all()), now)
    term.memory(NodeChecks).due_at.clear()
    check_due(term, list(Node.objects.all()), now - timedelta(minutes=10))  # the clock was set back
    wait_until(lambda: Node.objects.get(pk=silent.pk).missed_checks == 2, 10, "it was checked once more")


def test_a_check_without_news_is_one_call_on_a_kept_connection_and_writes_nothing(
    node: Node, engine: StandInEngine, check: Callable[..., Term]
) -> None:
    term = check()
    assert engine.calls == ["/version", LIST]
    answered = term.memory(NodeChecks).answered_at[node.pk]

    with CaptureQueriesContext(connection) as queries:
        node_checks.check_group(term, [Node.objects.get()], "a" * 32, database_now())

    assert engine.calls == ["/version", LIST, LIST]
    assert [query["sql"].split()[0] for query in queries] == ["SELECT", "SELECT"]  # the test's own: node and time
    assert term.memory(NodeChecks).answered_at[node.pk] > answered


def test_an_engine_that_was_restarted_is_not_missed(
    node: Node, engine: StandInEngine, tmp_path: Path, check: Any
) -> None:
    """The kept connection is closed then: the check is made on a new one."""
    term = check()
    engine.close()
    (tmp_path / "e.sock").unlink()
    again = StandInEngine(tmp_path / "e.sock")
    try:
        check(term)
    finally:
        again.close()

    assert again.calls == ["/version", LIST]
    assert Node.objects.get().missed_checks == 0


def test_an_engine_that_hangs_is_missed_and_delays_no_other(
    node: Node, engine: StandInEngine, tmp_path: Path, settings: Any, check: Any
) -> None:
    """P-18: both have a kept connection, and both are asked by one thread."""
    settings.NODE_CALL_SECONDS = 1.0
    other = StandInEngine(tmp_path / "o.sock")
    second = make_node("other", f"unix://{tmp_path}/o.sock")
    try:
        term = check()
        answered = term.memory(NodeChecks).answered_at
        first = dict(answered)
        engine.lists.clear()
        check(term)
    finally:
        other.close()

    assert answered[node.pk] == first[node.pk]
    assert answered[second.pk] > first[second.pk]
    assert [row.missed_checks for row in Node.objects.order_by("pk")] == [1, 0]


def test_an_orphan_that_a_check_lists_is_ended(node: Node, engine: StandInEngine, check: Any) -> None:
    """The stand-in does not know it any more when it is asked to remove it, which ends it, too."""
    engine.containers = [{"Id": "x", "Names": ["/airlock-x"], "Labels": {}, "State": "exited"}]
    term = check()
    engine.calls.clear()

    check(term)

    assert engine.calls[0] == LIST
    assert "/containers/airlock-x/json" in engine.calls


def test_the_times_of_the_answers_are_stored_with_one_statement(node: Node) -> None:
    """However many nodes there are; a row that is locked is left out."""
    assert own_label()  # the first time, this machine is admitted
    counts = []
    for more in (1, 20):
        for number in range(more):
            make_node(f"n{more}-{number}", f"unix:///nowhere/{more}-{number}.sock")
        nodes = list(Node.objects.all())
        term, clock = Term(), time.monotonic()
        long_ago = database_now() - timedelta(minutes=1)
        Node.objects.update(last_seen_at=long_ago)
        for each in nodes:
            each.last_seen_at = long_ago
            term.memory(NodeChecks).answered_at[each.pk] = clock
        with CaptureQueriesContext(connection) as queries:
            check_due(term, nodes, database_now())
        counts.append(len(queries))
        assert not Node.objects.filter(last_seen_at=long_ago).exists()
        pools.wait_idle(20)
    assert counts[0] == counts[1]


def test_the_time_of_an_answer_is_stored_also_if_checks_are_rare(node: Node, settings: Any) -> None:
    """P-05: whether this machine is cut off is judged by when the others were seen."""
    settings.NODE_CHECK_SECONDS = 60.0
    assert own_label()
    term, now = Term(), database_now()
    Node.objects.update(last_seen_at=now - timedelta(minutes=5))
    term.memory(NodeChecks).answered_at[node.pk] = time.monotonic() - 60
    check_due(term, list(Node.objects.all()), now)
    assert pools.wait_idle(20)
    seen_at = Node.objects.get().last_seen_at
    assert seen_at is not None
    assert seen_at >= now - timedelta(seconds=61)


@pytest.mark.parametrize(("count", "moments"), [(1, 1), (10, 1), (50, 5), (200, 20)])
def test_few_nodes_are_checked_together_and_many_in_groups(
    count: int, moments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn for each node would cost an idle scheduler more than the checks; two hundred at once would be a burst."""
    checks, clock = NodeChecks(), time.monotonic()
    pks = list(range(1, count + 1))
    assert checks.take_due(pks, 5.0) == set(pks)
    groups = []
    while clock + 5.0 > (upcoming := min(checks.due_at.values())):
        monkeypatch.setattr(node_checks.time, "monotonic", lambda at=upcoming: at)
        groups.append(len(checks.take_due(pks, 5.0)))
        monkeypatch.undo()
    assert len(groups) in {moments, moments - 1}  # the first group of the interval may be that of the first call
    assert all(size <= 10 for size in groups)


def test_a_process_node_without_a_home_is_taken(process_node: Node, check: Any) -> None:
    Node.objects.update(process_home="")
    assert health.has_news(Node.objects.get(), process_node.engine_version)
    check()
    assert Node.objects.get().process_home
