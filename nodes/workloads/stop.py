"""Stop a workload: SIGTERM, SIGKILL, collect the result, remove the container. Retried until confirmed."""

import contextlib
import logging
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F

from nodes import failpoints
from nodes.models import Node, Workload
from nodes.models.workload import NODE_GONE
from nodes.runtimes.base import NameTaken, OutcomeUnknown, Refused, Runtime, RuntimeFault, Status, Unreachable
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, tell
from nodes.workloads.poll import finish
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen
from worker.wire.commands import Stop
from worker.wire.status import WorkerStatus

logger = logging.getLogger(__name__)

State = Workload.State
FORCE_AFTER = timedelta(seconds=12)
REPEAT_AFTER = timedelta(seconds=4)


def stop(workload: Workload, runtime: Runtime) -> None:
    """Take the next action from any live state towards exited."""
    now = database_now()
    if workload.state == State.REQUESTED:
        workload.move(State.EXITED, now=now, note="never started", exit_reason="never_started")
        return
    if workload.state != State.STOPPING and not workload.move(State.STOPPING, now=now):
        return
    failpoints.reach(failpoints.STOP_BEFORE_CALL)
    try:
        observed = runtime.inspect(workload.name)
        if observed is not None:
            runtime.check_ours(observed)
        if observed is None:
            _end_without_trace(workload, now)
        elif observed.status is Status.RUNNING:
            _signal(workload, runtime, now)
            failpoints.reach(failpoints.STOP_BEFORE_RESULT)
        else:
            failpoints.reach(failpoints.STOP_AFTER_EXIT)
            finish(workload, observed, runtime)
            resolve_alert(_alert_key(workload), now=now, note="it has ended")
    except NameTaken:
        _end_without_trace(workload, now)
    except (Unreachable, OutcomeUnknown, Refused) as fault:
        _ask_media_worker(workload)
        _note_failed_stop(workload, redact(str(fault)), now)


def _ask_media_worker(workload: Workload) -> None:
    """The engine does not answer, but the media worker may (live-restore). A channel that was moved must not go on
    sending from its old node."""
    if workload.is_wanted:
        return  # it is lost but not replaced, so it must keep playing
    with contextlib.suppress(WorkerSilent, WorkerRefused, CannotOpen):
        tell(workload, Stop(), WorkerStatus)
        logger.info("The engine does not answer; asked the media worker to stop. workload=%s", workload.name)


def _resume_lost(workload: Workload, now: datetime) -> bool:
    """Return a lost workload to running if its node is back, it never stopped, and nothing replaced it (P-06)."""
    cannot_resume = workload.state != State.LOST or not workload.is_wanted or not workload.is_fenced
    if cannot_resume or Workload.objects.filter(owner=workload.owner, generation__gt=workload.generation).exists():
        return False
    try:
        with transaction.atomic():
            # Lock it: a successor that is decided at the same time makes it unwanted (nodes.workloads.want).
            if not Workload.objects.select_for_update(no_key=True).filter(pk=workload.pk, is_wanted=True).exists():
                return False
            return workload.move(
                State.RUNNING,
                now=now,
                note="its node is back and it never stopped",
                exit_reason="",
                error="",
                missed_looks=0,
                heartbeat_at=now,
            )
    except IntegrityError:
        return False  # another workload has its control port now, or it was replaced


def clean_up(workload: Workload, runtime: Runtime) -> None:
    """The row is over: make sure that its container has ended too, and remove it."""
    now = database_now()
    try:
        observed = runtime.inspect(workload.name)
        if observed is not None and observed.status is Status.RUNNING:
            runtime.check_ours(observed)
            if not _resume_lost(workload, now):
                _signal(workload, runtime, now)
            return
        runtime.remove(workload.name)
    except NameTaken:
        logger.warning("A container that is not ours has this name; left it alone. workload=%s", workload.name)
    except RuntimeFault as fault:
        _ask_media_worker(workload)
        logger.warning(
            "The workload could not be cleaned up yet. workload=%s error=%s", workload.name, redact(str(fault))
        )
        return
    failpoints.reach(failpoints.STOP_AFTER_REMOVE)
    Workload.objects.filter(pk=workload.pk).update(removed_at=now)
    resolve_alert(_alert_key(workload), now=now, note="it has ended")


def _signal(workload: Workload, runtime: Runtime, now: datetime) -> None:
    """Send SIGTERM, repeat it, and send SIGKILL after FORCE_AFTER."""
    first = workload.signalled_at or now
    is_frozen = workload.exit_reason == "unresponsive"
    force = is_frozen or now - first >= FORCE_AFTER
    if workload.stop_signals and not force and now - first < REPEAT_AFTER * workload.stop_signals:
        return
    runtime.stop(workload.name, force=force)
    Workload.objects.filter(pk=workload.pk).update(stop_signals=F("stop_signals") + 1, signalled_at=first)
    if workload.deadline_at and now > workload.deadline_at:
        _note_failed_stop(workload, "It was asked to stop and is still running.", now)


def _end_without_trace(workload: Workload, now: datetime) -> None:
    """There is no such container. If a timed-out call still creates one later, it is swept as an orphan."""
    workload.move(State.EXITED, now=now, note="there is no container of that name", exit_reason="gone")
    resolve_alert(_alert_key(workload), now=now)


def _note_failed_stop(workload: Workload, error: str, now: datetime) -> None:
    """A stop is retried until confirmed (R-08): alert, extend the deadline, try again. Only a node that is down ends
    the retries."""
    if workload.deadline_at is None or now <= workload.deadline_at:
        return
    node_is_down = Node.objects.filter(pk=workload.node_id, state=Node.State.DOWN).exists()
    if node_is_down and workload.state == State.STOPPING:
        workload.move(State.LOST, now=now, note=f"its node is down: {error}", exit_reason=NODE_GONE, error=error)
    else:
        deadline = now + Workload.DEADLINES[State.STOPPING]
        Workload.objects.filter(pk=workload.pk).update(error=error, deadline_at=deadline)
    late, ends_by_itself = now - workload.state_since_at, "ends_at" in workload.spec
    raise_alert(
        _alert_key(workload),
        f"{workload.owner} does not stop on node {workload.node.name}",
        now=now,
        severity=Severity.CRITICAL if late > timedelta(minutes=2) else Severity.WARNING,
        text=f"{error}\nAirlock keeps trying." + (" It also ends by itself at its end time." if ends_by_itself else ""),
        subject=f"workload:{workload.pk}",
    )


def _alert_key(workload: Workload) -> str:
    return f"not_stopping:{workload.name}"
