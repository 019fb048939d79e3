"""Start a workload: write the intent, call the runtime, write the result. Safe to repeat after a crash."""

import logging
import time
from datetime import datetime
from typing import Any

from nodes import failpoints
from nodes.machines.node_clock import Span, read_station_time
from nodes.models import Node, Workload
from nodes.models.workload import NODE_GONE
from nodes.runtimes.base import NameTaken, Observed, OutcomeUnknown, Refused, Runtime, RuntimeFault, Status, Unreachable
from nodes.workloads import launch_of
from nodes.workloads.media_worker_client import WorkerSilent, fetch_status
from nodes.workloads.poll import finish, take_heartbeat
from nodes.workloads.worker_clock import check_clock
from station.alerts import raise_alert
from station.clock import database_now
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen

logger = logging.getLogger(__name__)

State = Workload.State
FIRST_ANSWER_SECONDS = 3.0


def start(workload: Workload, runtime: Runtime) -> None:
    """Take the next action from requested or starting towards running."""
    now = database_now()
    if workload.deadline_at and now > workload.deadline_at:
        _fail(workload, "not_started", workload.error or "It did not start in time.", now)
        return
    if workload.state == State.REQUESTED and not workload.move(
        State.STARTING, now=now, note=f"on {workload.node.name}", called_at=now
    ):
        return
    failpoints.reach(failpoints.START_BEFORE_CALL)
    observed = _call(workload, runtime)
    if observed is None:
        return
    failpoints.reach(failpoints.START_BEFORE_RESULT)
    if observed.status is Status.EXITED:
        finish(workload, observed, runtime)
    elif observed.status is Status.RUNNING:
        _await_first_answer(workload, runtime)


def _call(workload: Workload, runtime: Runtime) -> Observed | None:
    """Call the runtime. None if there is nothing to continue with; the row has the reason."""
    try:
        return runtime.start(launch_of(workload, database_now()))
    except NameTaken as fault:
        now = database_now()
        raise_alert(
            f"name_taken:{workload.name}",
            f"The name {workload.name} is already in use on node {workload.node.name}",
            now=now,
            severity=Severity.WARNING,
            text=f"{fault} Airlock does not touch it and uses another name. Remove it if it should not be there.",
            subject=f"workload:{workload.pk}",
        )
        _fail(workload, "name_taken", str(fault), now, removed_at=now)
    except (Unreachable, OutcomeUnknown) as fault:
        workload.error = redact(str(fault))
        if workload.is_fenced and Node.objects.filter(pk=workload.node_id, state=Node.State.DOWN).exists():
            # It is not on air, and another node may have room. If it did start, it is ended when the node is back.
            _fail(workload, NODE_GONE, f"The node went down: {workload.error}", database_now())
            return None
        Workload.objects.filter(pk=workload.pk).update(error=workload.error)
        logger.warning("Start is not confirmed yet. workload=%s error=%s", workload.name, workload.error)
    except Refused as fault:
        _fail(workload, "refused", redact(str(fault)), database_now())
    except CannotOpen as fault:
        _fail(workload, "sealed", str(fault), database_now())
    return None


def _await_first_answer(workload: Workload, runtime: Runtime) -> None:
    """Wait briefly for the new media worker's first answer; if it takes longer, the next check continues here."""
    deadline = time.monotonic() + FIRST_ANSWER_SECONDS
    while True:
        asked = time.monotonic()
        try:
            status = fetch_status(workload)
            call = Span(asked, time.monotonic())
            break
        except WorkerSilent as silence:
            if time.monotonic() > deadline:
                Workload.objects.filter(pk=workload.pk).update(error=str(silence))
                return
        time.sleep(0.05)
        try:
            observed = runtime.inspect(workload.name)
        except RuntimeFault as fault:  # the next check continues here, until the deadline
            Workload.objects.filter(pk=workload.pk).update(error=redact(str(fault)))
            return
        if observed is None or observed.status is Status.EXITED:
            if observed is not None:
                finish(workload, observed, runtime)
            return
    station = read_station_time()
    now = station.now
    if workload.move(State.RUNNING, now=now, note="it answers", started_at=now, heartbeat_at=now, error=""):
        logger.info("Workload is running. workload=%s node=%s", workload.name, workload.node.name)
        take_heartbeat(workload, status, now)
    check_clock(workload, status.clock, call, station, is_start=True)


def _fail(workload: Workload, reason: str, error: str, now: datetime, **changes: Any) -> None:
    if workload.move(State.FAILED, now=now, note=error, exit_reason=reason, error=error, **changes):
        logger.error("Workload failed to start. workload=%s reason=%s error=%s", workload.name, reason, error)
