"""Makes the running containers match the wanted workloads: checks each workload and takes the next action.

Level-triggered: a check compares the row (wanted, state) with the container on the node and does one thing: start,
adopt, watch, stop, collect or remove. Any process may check (the loop, or a request in the admin), at any time, and
after a crash at any point. Calls to a node happen outside transactions: write the intent, call, write the result.

- A call that timed out has an unknown result: the name is deterministic, so the next check finds out.
- One actor at a time acts on a workload (a lease on the row). The lease of a crashed actor expires by itself.
- A container with our label and no live row is an orphan: stopped, then killed, then removed.
"""

import contextlib
import logging
import time
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q
from django.utils.module_loading import import_string

from nodes.machines.call_pools import NO_NODE, Rank, pools
from nodes.machines.roll_call import RollCall
from nodes.models import Node, Workload
from nodes.runtimes import here, runtime_for
from nodes.workloads import engine_events, node_checks, poll, stop
from nodes.workloads.old_generations import is_left_behind, watch_ports
from nodes.workloads.poll import Asked
from nodes.workloads.reachability import Heard
from nodes.workloads.start import start
from nodes.workloads.status_poller import StatusPoller
from nodes.workloads.status_question import Question
from station.clock import database_now
from station.leader_term import Term
from worker.wire import codec

logger = logging.getLogger(__name__)

State = Workload.State
HURRY_SECONDS = 0.5
# A workload lost less than this long ago is checked in every turn, even if its node is down; an older one less often.
RECENTLY_LOST = timedelta(minutes=3)
LEFT_BEHIND_SECONDS = 5.0
# New workloads are found this soon, without a notification.
MOST_SECONDS = 5.0
# A check that is due in less than this is due now: the loop may wake a little early.
NEARLY_SECONDS = 0.01
# An answer that waited longer for a thread is not used: the media worker is asked again.
FRESH_SECONDS = 2.0
LEASE_MARGIN_SECONDS = 4.0
LEASE_SLACK = timedelta(seconds=1)
DUE_SQL = "SELECT clock_timestamp() FROM nodes_node LIMIT 1"
CHECKED = (
    *("node_id", "owner", "state", "is_wanted", "missed_looks", "state_since_at"),
    *("poll_seconds", "is_fenced", "exit_code", "control_port"),
)


class Checks:
    """The monotonic times of the last checks: the database's clock may be set (R-23)."""

    def __init__(self) -> None:
        self.checked_at: dict[int, float] = {}  # by workload

    def seconds_left(self, pk: int, interval: float) -> float:
        """Until the next check of this workload is due; 0 if it is due now."""
        left = self.checked_at.get(pk, -1e9) + interval - time.monotonic()
        return left if left > NEARLY_SECONDS else 0.0

    def forget_all_but(self, pks: set[int]) -> None:
        for pk in self.checked_at.keys() - pks:
            del self.checked_at[pk]


def step(term: Term, now: datetime) -> datetime | None:
    """Check every workload that is not removed, on other threads; the loop does not wait for them."""
    checks, every_node = term.memory(Checks), list(Node.objects.all())
    next_check = node_checks.check_due(term, every_node, now)  # first: a fault below must not stop it
    nodes = {node.pk: node for node in every_node if not node.is_elsewhere(here())}
    waits, questions = [MOST_SECONDS], []
    rows = list(
        Workload.objects.to_look_at().filter(node__in=nodes).annotate(ends_at=F("spec__ends_at")).only(*CHECKED)
    )
    checks.forget_all_but({workload.pk for workload in rows})
    watch_ports(term, nodes, [workload for workload in rows if is_left_behind(workload, nodes[workload.node_id])])
    for workload in rows:
        node = nodes[workload.node_id]
        interval = _interval(workload, node, now)
        left = checks.seconds_left(workload.pk, interval)
        waits.append(left or interval)
        if left:
            continue
        checks.checked_at[workload.pk] = time.monotonic()
        if workload.is_settled:
            questions.append(_question(workload, node))
        else:
            _submit(term, workload, is_node_away=node.state != Node.State.UP, is_leaders_thread=True)
    if any(each.is_fenced and each.has_missed for each in questions):
        term.memory(RollCall).call()  # so that the answers are there when they are needed
    term.memory(StatusPoller).ask(term, questions, partial(_tell_later, term), partial(_check_later, term))
    up = [node for node in nodes.values() if node.state == Node.State.UP]
    if engine_events.unheard(term, up):
        listen = partial(engine_events.keep_listening, term, up, partial(reconcile_soon, term))
        pools.submit_soon(NO_NODE, "listen", listen)
    return None if next_check is None else now + timedelta(seconds=min(next_check, *waits))


def _interval(workload: Workload, node: Node, now: datetime) -> float:
    """Seconds between two checks of this workload."""
    if workload.is_settled:
        return HURRY_SECONDS if workload.is_fenced and workload.missed_looks else workload.poll_seconds
    is_old = workload.state_since_at < now - RECENTLY_LOST
    if node.state != Node.State.UP and workload.is_over and is_old:
        return LEFT_BEHIND_SECONDS  # it can wait until its node is back
    return HURRY_SECONDS


def _question(workload: Workload, node: Node) -> Question:
    ends_at: str | None = workload.ends_at  # type: ignore[attr-defined]  # annotated
    return Question(
        pk=workload.pk,
        node=node,
        is_fenced=workload.is_fenced,
        has_missed=bool(workload.missed_looks),
        ends_at=codec.decode(datetime, ends_at) if ends_at else None,
    )


def reconcile_soon(term: Term, owner: str) -> None:
    """Check all workloads of this owner now, on the threads of their nodes. Only the scheduler calls this."""
    for workload in Workload.objects.to_look_at().filter(owner=owner).select_related("node"):
        if not workload.node.is_elsewhere(here()):
            _submit(term, workload, is_node_away=workload.node.state != Node.State.UP)


def _submit(term: Term, workload: Workload, *, is_node_away: bool = False, is_leaders_thread: bool = False) -> None:
    """Starts and stops go first. What is left behind on a node that is away needs one thread for all of it."""
    submit = pools.submit_soon if is_leaders_thread else pools.submit
    task = partial(reconcile_and_tell, term, workload.pk, workload.owner)
    if workload.is_over and is_node_away:
        submit(workload.node_id, "left_behind", task)
    else:
        submit(workload.node_id, f"workload:{workload.pk}", task, rank=_rank(workload))


def _rank(workload: Workload) -> Rank:
    if workload.is_settled or workload.is_over:
        return Rank.CHECK
    if workload.is_wanted and workload.state in {State.REQUESTED, State.STARTING}:
        return Rank.START if workload.is_fenced else Rank.RECORDING
    return Rank.URGENT


def _check_later(term: Term, question: Question, owner: str, asked: Asked) -> None:
    """Its answer needs a check. A fenced one may be off air: it does not queue behind recordings of its machine."""
    answered_at = time.monotonic()

    def check() -> None:
        is_fresh = time.monotonic() - answered_at < FRESH_SECONDS
        reconcile_and_tell(term, question.pk, owner, asked if is_fresh else None)

    rank = Rank.URGENT if question.is_fenced else Rank.CHECK
    pools.submit(question.node.pk, f"workload:{question.pk}", check, rank=rank)


def _tell_later(term: Term, question: Question, owner: str) -> bool:
    """A new status is stored. False if the owner is busy with an older one."""
    return pools.submit(question.node.pk, f"owner:{question.pk}", partial(tell_owner, term, owner)) is not None


def reconcile_and_tell(term: Term, pk: int, owner: str, asked: Asked | None = None) -> None:
    """Take the next action, then let the app that owns the workload react."""
    if term.is_over:
        return
    if reconcile(pk, term, asked) is not None:
        tell_owner(term, owner)


def tell_owner(term: Term, owner: str) -> None:
    callback = settings.WORKLOAD_OWNERS.get(owner.partition(":")[0])
    if callback:
        import_string(callback)(term, owner)


def reconcile(pk: int, term: Term | None = None, asked: Asked | None = None) -> Workload | None:
    """Take the next action for one workload. None if another actor holds its lease. For `asked` see `poll`."""
    term = term or Term()
    lease = _take_lease(term, pk)
    if lease is None:
        return None
    try:
        workload = Workload.objects.select_related("node").get(pk=pk)
        _act(term, workload, asked)
        return workload
    finally:
        _give_back(pk, lease)


def _act(term: Term, workload: Workload, asked: Asked | None) -> None:
    runtime = runtime_for(workload.node)
    if workload.is_over:
        stop.clean_up(workload, runtime)
        if workload.state == State.RUNNING:  # it never stopped: its silence from before does not count
            term.memory(Heard).heartbeats.pop(workload.pk, None)
    elif not workload.is_wanted or workload.state == State.STOPPING:
        stop.stop(workload, runtime)
    elif workload.state == State.RUNNING:
        poll.poll(term, workload, runtime, asked)
    else:
        start(workload, runtime)


def _take_lease(term: Term, pk: int) -> datetime | None:
    now = database_now()
    until = now + timedelta(seconds=settings.NODE_CALL_SECONDS + LEASE_MARGIN_SECONDS)
    # The lease of an earlier leader is void, even one that its late thread took after our term began. So is one that
    # ends later than any lease: the database's clock was set back.
    free = Q(leased_until_at=None) | Q(leased_until_at__lt=now) | Q(leased_until_at__gt=until + LEASE_SLACK)
    free |= Q(lease_epoch__gt=0, lease_epoch__lt=term.epoch)
    rows = Workload.objects.filter(free, pk=pk, removed_at=None)
    return until if rows.update(leased_until_at=until, lease_epoch=term.epoch) else None


def _give_back(pk: int, lease: datetime) -> None:
    """Try a second time on a new connection: a lease that is not given back blocks every actor until it expires."""
    rows = Workload.objects.filter(pk=pk, leased_until_at=lease)
    try:
        rows.update(leased_until_at=None)
    except (OperationalError, InterfaceError):
        connection.close()
        with contextlib.suppress(OperationalError, InterfaceError):
            rows.update(leased_until_at=None)


def wait_idle(term: Term, seconds: float) -> bool:
    """Wait until the checks that were begun are done. For a single turn; the loop never waits."""
    deadline = time.monotonic() + seconds
    is_idle = term.memory(StatusPoller).wait_idle(seconds)
    return pools.wait_idle(max(0.0, deadline - time.monotonic())) and is_idle


def void_older_leases(term: Term) -> int:
    """At the start of a term, clear the leases of earlier leaders, which may be dead or frozen.

    If a frozen leader resumes in the middle of a call, the container's name prevents a second start.
    """
    held = Workload.objects.filter(leased_until_at__isnull=False, lease_epoch__gt=0, lease_epoch__lt=term.epoch)
    with transaction.atomic():
        # A locked row keeps its lease; `_take_lease` ignores leases of earlier leaders anyway.
        free = list(held.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
        return Workload.objects.filter(pk__in=free).update(leased_until_at=None)
