"""A running workload: believe its progress, notice when it is gone, silent, or over."""

import json
import logging
from datetime import datetime
from typing import Any

from nodes.models import Workload
from nodes.runtimes.base import Observed, Runtime, RuntimeFault, Status
from nodes.workerclient import WorkerSilent, fetch_status, send_end
from station.clock import database_now
from station.redaction import redact
from station.sealing import CannotOpen
from worker import exits

logger = logging.getLogger(__name__)

State = Workload.State
LOG_LINES = 60
HUNG_LOOP_SECONDS = 20


def watch(workload: Workload, runtime: Runtime) -> None:
    """One look. The engine is asked only when the worker itself is silent."""
    try:
        status = fetch_status(workload)
        if _thinks_otherwise(status, workload.spec.get("ends_at")):
            status = send_end(workload, workload.spec["ends_at"])
    except (WorkerSilent, CannotOpen) as silence:
        _look_closer(workload, runtime, str(silence))
        return
    if (status.get("loop_age_seconds") or 0) > HUNG_LOOP_SECONDS:
        _look_closer(workload, runtime, f"its main loop stands still for {status['loop_age_seconds']:.0f} s")
        return
    take_heartbeat(workload, status, database_now())


def _thinks_otherwise(status: dict[str, Any], ends_at: str | None) -> bool:
    """Does the worker have another end in mind than the one that is wanted?"""
    known = status.get("ends_at")
    if not ends_at or not known:
        return bool(ends_at)
    return abs((datetime.fromisoformat(known) - datetime.fromisoformat(ends_at)).total_seconds()) > 0.01


def take_heartbeat(workload: Workload, status: dict[str, Any], now: datetime) -> None:
    """It answered: note when, what it has done, and push its deadline ahead."""
    status = {**status, "error": redact(str(status.get("error") or ""))}
    moved = status.get("frames", 0) > workload.progress.get("frames", 0) or workload.progress_at is None
    changes: dict[str, Any] = {
        "heartbeat_at": now,
        "progress": status,
        "deadline_at": now + Workload.DEADLINES[State.RUNNING],
    }
    if moved:
        changes["progress_at"] = now
    Workload.objects.filter(pk=workload.pk, state=State.RUNNING).update(**changes)
    for name, value in changes.items():
        setattr(workload, name, value)


def _look_closer(workload: Workload, runtime: Runtime, silence: str) -> None:
    now = database_now()
    is_overdue = workload.deadline_at is not None and now > workload.deadline_at
    try:
        observed = runtime.inspect(workload.name)
    except RuntimeFault as fault:
        # The engine may be restarting while the container goes on (live-restore): patience until the deadline.
        if is_overdue:
            _lose(workload, "node_gone", f"Neither the worker nor its node answers: {redact(str(fault))}", now)
        return
    if observed is None:
        _lose(workload, "gone", "Its container or process has vanished.", now)
    elif observed.status is not Status.RUNNING:
        finish(workload, observed, runtime)
    elif is_overdue:
        error = f"It runs but has not answered for {Workload.DEADLINES[State.RUNNING].seconds} s ({silence})."
        if workload.move(State.FAILED, now=now, note=error, exit_reason="unresponsive", error=error):
            logger.error("Workload is unresponsive and will be ended. workload=%s", workload.name)


def _lose(workload: Workload, reason: str, error: str, now: datetime) -> None:
    if workload.move(State.LOST, now=now, note=error, exit_reason=reason, error=error):
        logger.error("Workload is lost. workload=%s reason=%s", workload.name, reason)


def finish(workload: Workload, observed: Observed, runtime: Runtime) -> None:
    """It is over: collect what it said last, and say in words how it ended."""
    now = database_now()
    printed = _last_log(workload, runtime)
    reason = _reason(observed)
    changes: dict[str, Any] = {"exit_code": observed.exit_code, "exit_reason": reason, "log_tail": printed}
    final = _final_status(printed, workload)
    if final is not None:
        changes["progress"] = final
    is_clean = observed.exit_code in {exits.DONE, exits.DISK_FULL} or workload.state == State.STOPPING
    to = State.EXITED if is_clean else State.FAILED
    note = f"{reason}, exit code {observed.exit_code}" + (f": {observed.error}" if observed.error else "")
    if not is_clean:
        changes["error"] = f"{note}. {_last_line(printed)}".strip()
    if workload.move(to, now=now, note=note, **changes):
        level = logging.INFO if is_clean else logging.ERROR
        logger.log(level, "Workload ended. workload=%s reason=%s code=%s", workload.name, reason, observed.exit_code)


def _reason(observed: Observed) -> str:
    if observed.is_out_of_memory:
        return "out_of_memory"
    if observed.status is Status.CREATED:
        return "never_started"
    if observed.exit_code is None:
        return "unknown_end"
    if observed.exit_code in {137, -9}:
        return "killed"
    return exits.REASONS.get(observed.exit_code, "crashed")


def _last_log(workload: Workload, runtime: Runtime) -> str:
    try:
        return redact(runtime.logs(workload.name, LOG_LINES))
    except RuntimeFault as fault:
        return f"(the log could not be read: {redact(str(fault))})"


def _final_status(printed: str, workload: Workload) -> dict[str, Any] | None:
    """The worker's last line sums up; believe it only if it names this workload."""
    for line in reversed(printed.splitlines()):
        try:
            final = json.loads(line)["final"]
            if (final["owner"], final["generation"]) == (workload.owner, workload.generation):
                return dict(final)
        except (ValueError, KeyError, TypeError):
            continue
    return None


def _last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip() and not line.startswith("{")]
    return lines[-1][:300] if lines else ""
