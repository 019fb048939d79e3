"""Checks each node every few seconds with one call: does it answer, and which of our containers are there?

A check without news writes nothing. The times of the answers are stored together, with one statement. Nodes are checked
in groups, so that few of them cost one turn of the loop and fifty are no burst.
"""

import math
import time
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from nodes.machines import health
from nodes.machines.call_pools import NODE_GROUPS, pools
from nodes.models import Node
from nodes.runtimes import here, installation, runtime_for
from nodes.runtimes.base import MayNotAct, NodeAnswer, PendingCheck, RuntimeFault, readable
from nodes.runtimes.process_home import take_home
from nodes.workloads.orphans import Sightings, end_orphans, known_names
from station.leader_term import Term
from station.redaction import redact

# A check that is due in less than this is due now: the loop may wake a little early.
NEARLY_SECONDS = 0.01
# The time of the last answer is stored when the stored one is older than this.
SEEN_INTERVAL = timedelta(seconds=10)
GROUP = 10
# An engine that needs longer is asked again with the patience of a call, on a thread of its node.
QUICK_SECONDS = 0.5


class NodeChecks:
    """The monotonic times of checks: a database clock that is set back must not delay them (R-23)."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.due_at: dict[int, float] = {}
        self.answered_at: dict[int, float] = {}

    def take_due(self, pks: list[int], interval: float) -> set[int]:
        """Those that are due now. Each new node is due at once, and from then on together with its group."""
        clock = time.monotonic() + NEARLY_SECONDS
        groups = math.ceil(len(pks) / GROUP)
        due = set()
        for position, pk in enumerate(sorted(pks)):
            if self.due_at.get(pk, 0.0) <= clock:
                due.add(pk)
                first = self.began + interval * (position % groups) / groups
                self.due_at[pk] = first + interval * (math.floor((clock - first) / interval) + 1)
        return due

    def seconds_left(self, pks: list[int]) -> float:
        return min(self.due_at[pk] for pk in pks) - time.monotonic()


def check_due(term: Term, nodes: list[Node], now: datetime) -> float | None:
    """Check those of all nodes that are due, on other threads; returns in how many seconds the next one is due."""
    ours = [node for node in nodes if not node.is_elsewhere(here()) or take_home(node)]
    if not ours:
        return None
    checks, pks = term.memory(NodeChecks), [node.pk for node in ours]
    due = checks.take_due(pks, settings.NODE_CHECK_SECONDS)
    if due:
        _store_seen(checks, ours, now)
        group = [node for node in ours if node.pk in due]
        pools.submit_soon(NODE_GROUPS, f"checks:{min(due)}", partial(check_group, term, group, own_label(), now))
    return checks.seconds_left(pks)


def own_label() -> str | None:
    """Read once for all checks of a turn. Whoever ends a container reads it again."""
    try:
        return installation()
    except MayNotAct:
        return None


def _store_seen(checks: NodeChecks, nodes: list[Node], now: datetime) -> None:
    clock, newer = time.monotonic(), {}
    for node in nodes:
        if node.pk not in checks.answered_at or health.is_recent(node.last_seen_at, now, SEEN_INTERVAL):
            continue
        seconds = clock - checks.answered_at[node.pk]
        # A stored time is not replaced by an older one, unless it is in the future: then the clock was set back.
        seen_at = node.last_seen_at
        if seen_at is None or seen_at > now or now - timedelta(seconds=seconds) > seen_at:
            newer[node.pk] = seconds
    if newer:
        health.store_seen(newer, now)


def check_group(term: Term, nodes: list[Node], label: str | None, now: datetime) -> None:
    """Ask all at once. What is slow, fails or needs more than a note gets a thread of its node."""
    asked: dict[PendingCheck, Node] = {}
    for node in nodes:
        pending = runtime_for(node).begin_check(label)
        if pending is None:
            pools.submit(node.pk, "check", partial(check_node, term, node, label, now))
        else:
            asked[pending] = node
    answers: list[tuple[Node, NodeAnswer]] = []
    deadline = time.monotonic() + QUICK_SECONDS
    while asked and (left := deadline - time.monotonic()) > 0:
        for pending in readable(asked, left):
            node = asked.pop(pending)
            try:
                answers.append((node, pending.read(QUICK_SECONDS)))
            except RuntimeFault:
                pools.submit(node.pk, "check", partial(check_node, term, node, label, now))
    for pending, node in asked.items():
        pending.drop()
        pools.submit(node.pk, "check", partial(check_node, term, node, label, now))
    _take_answers(term, answers, now)


def _take_answers(term: Term, answers: list[tuple[Node, NodeAnswer]], now: datetime) -> None:
    clock, checks, sightings = time.monotonic(), term.memory(NodeChecks), term.memory(Sightings)
    known = known_names([seen for _, answer in answers for seen in answer.containers])
    for node, answer in answers:
        checks.answered_at[node.pk] = clock
        has_orphans = any(seen.name not in known for seen in answer.containers) or sightings.has_some(node.pk)
        if has_orphans or health.has_news(node, answer.version) or health.is_disk_check_due(node, now):
            pools.submit(node.pk, "check", partial(_react, term, node, answer, now))


def check_node(term: Term, node: Node, label: str | None, now: datetime) -> None:
    """One node, on a thread of its own."""
    if term.is_over:
        return
    try:
        answer = runtime_for(node).check(label)
    except RuntimeFault as fault:
        node.refresh_from_db()  # it was read some time ago, and misses are counted
        health.note_miss(node, redact(str(fault)))
        return
    term.memory(NodeChecks).answered_at[node.pk] = time.monotonic()
    _react(term, node, answer, now)


def _react(term: Term, node: Node, answer: NodeAnswer, now: datetime) -> None:
    if health.has_news(node, answer.version):
        health.note_answer(node, answer.version)
    if health.is_disk_check_due(node, now):
        pools.submit(node.pk, "disk", partial(health.check_disk, node))  # it may take long, and checks go on
    if answer.containers or term.memory(Sightings).has_some(node.pk):
        # Each stop may take long on a machine that dies meanwhile, and checks go on.
        pools.submit(node.pk, "orphans", partial(end_orphans, term, node, answer.containers))
