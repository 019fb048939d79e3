"""Watch a running workload: store its progress, detect that it is gone, silent or has ended."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from nodes.machines import health
from nodes.machines.node_clock import Span, read_station_time
from nodes.models import Node, Workload
from nodes.models.workload import NODE_GONE
from nodes.runtimes.base import Observed, Runtime, RuntimeFault, Status
from nodes.workloads import reachability
from nodes.workloads.media_worker_client import WorkerHangs, WorkerSilent, fetch_status, send_end
from nodes.workloads.reachability import SEALED, UNREACHABLE, VANISHED, Doubt, Heard
from nodes.workloads.worker_clock import check_clock
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.leader_term import Term
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen
from worker.process import exits
from worker.wire import codec
from worker.wire.status import WorkerStatus, kind_of, read_final

logger = logging.getLogger(__name__)

State = Workload.State
MISSES_UNTIL_LOST = 3
LONG_SILENCE = 1.5  # times silence_seconds: after that, two missed checks are enough
LOG_LINES = 60
HUNG_LOOP_SECONDS = 20
ON_AIR_SECONDS = 5.0


@dataclass(frozen=True)
class Answer:
    """A status, and the call that brought it."""

    status: WorkerStatus
    call: Span


Asked = Callable[[], Answer]


def poll(term: Term, workload: Workload, runtime: Runtime, asked: Asked | None = None) -> None:
    """One check. The engine is asked only when the media worker itself is silent.

    `asked` returns its answer, or raises what `fetch_status` raises, if it was asked already (`status_poller`).
    """
    is_fenced = workload.is_fenced
    # It did not answer the last check and may be off air: ping all nodes while waiting for its answer.
    doubt = reachability.ask_around(term, workload, runtime) if is_fenced and workload.missed_looks else None
    try:
        answer = asked() if asked else _ask(workload)
        status, clock = answer.status, answer.status.clock
        ends_at = workload.wanted_end_at
        if ends_at is not None and has_other_end(status, ends_at):
            status = send_end(workload, ends_at)
    except CannotOpen as fault:
        _alert_sealed(workload, str(fault))
        _ask_engine(term, workload, runtime, str(fault), doubt, is_our_fault=True)
        return
    except WorkerHangs as silence:
        if is_fenced and doubt is None:
            # The call timed out, so its engine may time out too. The next check comes soon and asks all in parallel.
            _note_miss(workload)
            return
        _ask_engine(term, workload, runtime, str(silence), doubt)
        return
    except WorkerSilent as silence:
        _ask_engine(term, workload, runtime, str(silence), doubt)
        return
    term.memory(Heard).note(workload.pk, workload.node_id)
    if hangs(status, is_fenced=is_fenced):
        stuck = f"its main loop has been stuck for {status.loop_age_seconds:.0f} s"
        _ask_engine(term, workload, runtime, stuck, doubt)
        return
    term.memory(Heard).note(workload.pk, workload.node_id, is_heartbeat=True)
    station = read_station_time()
    take_heartbeat(workload, status, station.now)
    check_clock(workload, clock, answer.call, station)


def _ask(workload: Workload) -> Answer:
    began = time.monotonic()
    status = fetch_status(workload, reachability.PATIENCE_SECONDS if workload.is_fenced else None)
    return Answer(status, Span(began, time.monotonic()))


def hangs(status: WorkerStatus, *, is_fenced: bool) -> bool:
    """Is its main loop stuck? A fenced workload that still sends frames does not count: if its storage does not
    answer, a replacement would hang too (the owning app raises an alert)."""
    age = status.last_frame_age_seconds
    is_on_air = is_fenced and age is not None and age < ON_AIR_SECONDS
    return status.loop_age_seconds > HUNG_LOOP_SECONDS and not is_on_air


def has_other_end(status: WorkerStatus, ends_at: datetime) -> bool:
    """Does the media worker have another end time than the wanted one?"""
    return status.ends_at is None or abs((status.ends_at - ends_at).total_seconds()) > 0.01


def take_heartbeat(workload: Workload, status: WorkerStatus, now: datetime) -> None:
    """It answered: store the time and its progress, and extend its deadline."""
    status, before = replace(status, error=redact(status.error)), workload.status(WorkerStatus)
    # A source with sound only has no frames, so bytes count too.
    grown = status.frames > before.frames or status.bytes > before.bytes
    moved = grown or workload.progress_at is None
    changes: dict[str, Any] = {
        "heartbeat_at": now,
        "missed_looks": 0,
        "progress": codec.encode(status),
        "deadline_at": now + Workload.DEADLINES[State.RUNNING],
    }
    if moved:
        changes["progress_at"] = now
    if workload.missed_looks:
        for key in (VANISHED, UNREACHABLE, SEALED) if workload.is_fenced else (SEALED,):
            resolve_alert(key, now=now, note=f"{workload.name} answers again")
    Workload.objects.filter(pk=workload.pk, state=State.RUNNING).update(**changes)
    for name, value in changes.items():
        setattr(workload, name, value)


def _ask_engine(
    term: Term, workload: Workload, runtime: Runtime, silence: str, doubt: Doubt | None, *, is_our_fault: bool = False
) -> None:
    """The media worker does not answer: ask its node. A fault on our side is never a reason to end it."""
    now = database_now()
    _note_miss(workload)
    is_down = not workload.is_fenced and workload.node.state == Node.State.DOWN
    is_overdue = _is_overdue(term, workload, now) and (not is_our_fault or is_down)
    if workload.is_fenced and doubt is None:
        doubt = reachability.ask_around(term, workload, runtime)
    try:
        observed = doubt.inspect() if doubt else runtime.inspect(workload.name)
    except RuntimeFault as fault:
        now = database_now()  # the call may have taken seconds
        # The engine may be restarting while the container runs on (live-restore): wait until the deadline.
        if not is_overdue or _must_wait_for_card(workload, now):
            return
        if doubt and doubt.node_answers():
            _end_silent(term, workload, silence, now)  # the machine answers: restart it there
        elif not reachability.seems_to_be_us(workload, now, doubt):
            error = f"Neither the media worker nor its node answers: {redact(str(fault))}"
            _mark_lost(workload, NODE_GONE, error, now)
            health.note_gone(workload.node, error)  # so that nothing else is placed there
        return
    if observed is None:
        _mark_lost(workload, "gone", "Its container or process no longer exists.", now)
    elif observed.status is not Status.RUNNING:
        finish(workload, observed, runtime)
    elif is_overdue:
        _end_silent(term, workload, silence, now)


def _must_wait_for_card(workload: Workload, now: datetime) -> bool:
    """P-06: no other node can replace a workload on a card, and it may still be on air: wait until its deadline."""
    has_patience = workload.deadline_at is not None and now <= workload.deadline_at
    return workload.is_fenced and bool(workload.spec.get("devices")) and has_patience


def _end_silent(term: Term, workload: Workload, silence: str, now: datetime) -> None:
    """End a workload that its engine reports as running but that does not answer."""
    if reachability.is_blocked_by_network(term, workload, now):
        return
    error = f"It is running but has not answered for {silent_seconds(term, workload, now):.0f} s ({silence})."
    if workload.move(State.FAILED, now=now, note=error, exit_reason="unresponsive", error=error):
        logger.error("Workload is unresponsive and will be ended. workload=%s", workload.name)


def _alert_sealed(workload: Workload, fault: str) -> None:
    """Alert that the token cannot be decrypted: SEALING_KEYS differs. The workload itself is fine and continues."""
    raise_alert(
        SEALED,
        "The scheduler cannot decrypt the tokens of its media workers",
        now=database_now(),
        severity=Severity.CRITICAL,
        text=f"{fault} The media workers continue but cannot be supervised. Set SEALING_KEYS of this scheduler to the "
        f"same value as in the other processes. First seen with {workload.name}.",
    )


def _note_miss(workload: Workload) -> None:
    workload.missed_looks += 1
    Workload.objects.filter(pk=workload.pk).update(missed_looks=workload.missed_looks)


def _is_overdue(term: Term, workload: Workload, now: datetime) -> bool:
    """Has it been silent too long? Without `silence_seconds` it may be silent until its deadline (P-04)."""
    limit = workload.silence_seconds
    silent = silent_seconds(term, workload, now)
    if limit is None and workload.pk in term.memory(Heard).heartbeats:
        return silent > Workload.DEADLINES[State.RUNNING].total_seconds()
    if limit is not None:
        # After a long silence fewer misses are enough: if a machine drops every packet, each check takes seconds.
        misses = MISSES_UNTIL_LOST - 1 if silent >= LONG_SILENCE * limit else MISSES_UNTIL_LOST
        return silent >= limit and workload.missed_looks >= misses
    return workload.deadline_at is not None and now > workload.deadline_at


def silent_seconds(term: Term, workload: Workload, now: datetime) -> float:
    """Since its last heartbeat; by the monotonic clock if this leader had one: the database's may be set (R-23)."""
    heard_at = term.memory(Heard).heartbeats.get(workload.pk)
    if heard_at is not None:
        return time.monotonic() - heard_at
    return (now - (workload.heartbeat_at or workload.state_since_at)).total_seconds()


def _mark_lost(workload: Workload, reason: str, error: str, now: datetime) -> None:
    if workload.move(State.LOST, now=now, note=error, exit_reason=reason, error=error):
        logger.error("Workload is lost. workload=%s reason=%s", workload.name, reason)


def finish(workload: Workload, observed: Observed, runtime: Runtime) -> None:
    """It has ended: store its last log lines, its final status and the reason."""
    now = database_now()
    printed = _last_log(workload, runtime)
    reason = _reason(observed)
    changes: dict[str, Any] = {"exit_code": observed.exit_code, "exit_reason": reason, "log_tail": printed}
    final = _final_status(printed, workload)
    if final is not None:
        changes["progress"] = codec.encode(final)
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


def _final_status(printed: str, workload: Workload) -> WorkerStatus | None:
    """The final status from the media worker's last log line, if it names this workload."""
    for line in reversed(printed.splitlines()):
        try:
            final = read_final(kind_of(workload.program), line)
        except codec.WireError:
            continue
        if (final.owner, final.generation) == (workload.owner, workload.generation):
            return final
    return None


def _last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip() and not line.startswith("{")]
    return lines[-1][:300] if lines else ""
