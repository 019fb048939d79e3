"""The life of a channel: one look, one step. The same function serves the loop and a person pressing Start or Stop.

off_air -> starting -> on_air -> stopping -> off_air; on_air -> failing_over -> on_air; error waits for a person. Each
look compares what is wanted with the media worker (`nodes.workloads.reconcile` keeps that row true) and takes one step.
Nothing is given up while the channel is wanted, except what only a person can fix; what died too often waits a while.
"""

import logging
import time
from datetime import datetime, timedelta

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q

from nodes import workloads
from nodes.machines.placement import NoPlace
from nodes.machines.ports import PortTaken, release
from nodes.models import Node, Workload
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, tell
from nodes.workloads.reconcile import reconcile_soon
from nodes.workloads.watch import HUNG_LOOP_SECONDS
from playout.asrun import collection
from playout.channels import failover
from playout.channels.workload_spec import ask_for_worker
from playout.lists.rundown import rundown_of
from playout.models import Channel, Recovery
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.database.notify import wake_scheduler
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen
from station.states import SCHEDULER
from station.term import Term
from worker.wire import codec
from worker.wire.status import PlayoutStatus

logger = logging.getLogger(__name__)

State = Channel.State
WITH = ("project", "node", "playlist", "filler")
HURRIED = (State.STARTING, State.FAILING_OVER, State.STOPPING)
HURRY = timedelta(seconds=0.5)
LOOK = timedelta(seconds=15)
BACKOFF_SECONDS = (1, 2, 5, 10)
PREDECESSOR_PATIENCE = timedelta(seconds=10)
SENDING = (Workload.State.REQUESTED, Workload.State.STARTING, Workload.State.RUNNING)
# Bars for so long, and somebody must know.
BARS_SECONDS = 20.0
# A channel on air is looked at every second; whether its list was edited, a little less often, and the less often the
# longer it takes to read it: however long the lists are, reading them takes no more than a fiftieth of the time.
LIST_LOOK_SECONDS = 3.0
LIST_SHARE, LIST_LONGEST_SECONDS = 50, 30.0
TROUBLES = (
    *("off_air", "output", "channel_error", "channel_trouble", "list_refused", "not_stopping"),
    *("bars", "stuck", "list_failed", "dropping"),
)
DUE_SQL = f"""SELECT clock_timestamp() WHERE EXISTS (
    SELECT FROM playout_channel WHERE is_wanted OR state <> '{State.OFF_AIR}')"""  # noqa: S608  (our own states)


class Watched:
    """What the leader remembers: when a list is read again (monotonic, by workload), and which channels had trouble."""

    def __init__(self) -> None:
        self.list_due: dict[int, float] = {}
        self.troubled: set[int] = set()


def step(term: Term, now: datetime) -> datetime | None:
    """Advance the channels that need it now, each on its own. One on air is advanced with each status it sends."""
    rows = list(Channel.objects.to_look_at().select_related(*WITH))
    for channel in rows:
        # Calls to workers are made where their looks are, not on the leader's own thread.
        if channel.state != State.ON_AIR or not _is_looked_after(channel, now):
            _look_at(term, channel)
    if any(channel.state in HURRIED for channel in rows):
        return now + HURRY
    return now + LOOK if rows else None


def _is_looked_after(channel: Channel, now: datetime) -> bool:
    """Its worker was heard of a moment ago, and with every word of it the channel is looked at."""
    workload = workloads.latest(channel.owner)
    if workload is None or workload.is_over or not workload.is_wanted or workload.heartbeat_at is None:
        return False
    return now - workload.heartbeat_at < LOOK


def look(term: Term, owner: str) -> None:
    """There is news of the media worker of this channel (see WORKLOAD_OWNERS)."""
    channel = Channel.objects.to_look_at().select_related(*WITH).filter(pk=int(owner.partition(":")[2])).first()
    if channel is not None:
        _look_at(term, channel)


def _look_at(term: Term, channel: Channel) -> None:
    before, troubled = channel.state, term.memory(Watched).troubled
    try:
        advance(channel, database_now(), term)
        if channel.state != before or channel.state in HURRIED:
            reconcile_soon(term, channel.owner)
        if channel.pk in troubled:
            troubled.discard(channel.pk)
            resolve_alert(f"channel_trouble:{channel.owner}", now=database_now(), note="it is looked after again")
    except (OperationalError, InterfaceError):
        raise  # the database is away
    except Exception as error:  # one channel's trouble must not take another off air, and somebody must hear of it
        logger.exception("A channel could not be looked after. channel=%s", channel.pk)
        text = redact(f"{type(error).__name__}: {error}")
        troubled.add(channel.pk)
        alert(channel, "channel_trouble", f"{channel} could not be looked after", text, database_now())


def advance(channel: Channel, now: datetime, term: Term | None = None) -> None:
    """Take this channel one step further. A person's request has no term: it remembers nothing."""
    term = term or Term()
    if not channel.is_wanted and channel.state not in {State.OFF_AIR, State.STOPPING}:
        channel.move(State.STOPPING, now=now)
    if channel.is_wanted and channel.state == State.OFF_AIR:
        channel.move(State.STARTING, now=now, attempts=0, next_attempt_at=None, error="")
    if (
        channel.is_wanted
        and channel.state == State.ERROR
        and channel.next_attempt_at
        and channel.next_attempt_at <= now
    ):
        channel.move(State.STARTING, now=now, note="tried again", attempts=0, next_attempt_at=None)
    if channel.is_wanted and channel.state == State.ERROR:
        _note_return(term, channel, now)
    if channel.state in {State.STARTING, State.FAILING_OVER}:
        _bring_up(term, channel, now)
    if channel.state == State.ON_AIR:
        _look_after(term, channel, now)
    if channel.state == State.STOPPING:
        _bring_down(channel, now)


def _bring_up(term: Term, channel: Channel, now: datetime) -> None:
    workload = workloads.latest(channel.owner)
    if workload is not None and not workload.is_over and workload.is_wanted:
        if workload.state == Workload.State.RUNNING and workload.status(PlayoutStatus).frames:
            _note_on_air(term, channel, workload, now)
        elif channel.deadline_at is not None and now > max(channel.deadline_at, _patience_until(channel, workload)):
            _give_it_up(channel, workload, now)
        return
    if workload is not None and workload.is_wanted and workload.created_at >= channel.state_since_at:
        _note_failed_start(channel, workload, now)
    if channel.next_attempt_at is not None and now < channel.next_attempt_at:
        return
    if _predecessor_lingers(channel, now):
        return
    try:
        avoid, node = failover.where_to(channel, workload)
        ask_for_worker(channel, now, avoid=avoid, node=node)
    except (NoPlace, PortTaken, workloads.NoControlPort, CannotOpen) as fault:
        _wait(channel, f"No place to play from: {fault}", now)


def _note_return(term: Term, channel: Channel, now: datetime) -> None:
    """The machine with its card is back, and it never stopped (P-06)."""
    workload = workloads.latest(channel.owner)
    is_playing = workload is not None and workload.is_wanted and workload.state == Workload.State.RUNNING
    if workload is not None and is_playing and workload.status(PlayoutStatus).frames:
        _note_on_air(term, channel, workload, now)


def _patience_until(channel: Channel, workload: Workload) -> datetime:
    """However long there was no place before: each worker has its time to show a picture."""
    return workload.created_at + Channel.DEADLINES[State(channel.state)]


def _give_it_up(channel: Channel, workload: Workload, now: datetime) -> None:
    """It answers, but gives no picture: another one, elsewhere if that can be had, and somebody is told (P-05)."""
    words = workload.status(PlayoutStatus).error or f"{workload.name} gives no picture"
    workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="no picture in time")
    deadline = now + Channel.DEADLINES[State(channel.state)]
    Channel.objects.filter(pk=channel.pk, state=channel.state).update(deadline_at=deadline)
    channel.deadline_at = deadline
    _wait(channel, f"No picture in time: {words}", now)


def _predecessor_lingers(channel: Channel, now: datetime) -> bool:
    """One sender at a time: a worker that can still be reached gets some time to be gone for certain."""
    # Or was heard a moment ago, whatever its engine says: it is told to end by its own port then.
    is_near = Q(node__state=Node.State.UP) | Q(heartbeat_at__gt=now - PREDECESSOR_PATIENCE)
    # One whose end was seen is gone, whether its container is cleared away yet or not.
    lingering = Workload.objects.to_look_at().filter(is_near, owner=channel.owner, exit_code=None)
    # One that was not even told to stop yet still sends, however long it has been running.
    is_fresh = Q(state__in=SENDING) | Q(state_since_at__gt=now - PREDECESSOR_PATIENCE)
    return lingering.exclude(state=Workload.State.LOST).filter(is_fresh).exists()


def _note_failed_start(channel: Channel, workload: Workload, now: datetime) -> None:
    """The worker of this very attempt is over already, and nobody had asked it to be."""
    # Once it was noted, the pause ends later than the worker did, whatever else was said since ("No place").
    if channel.next_attempt_at is None or channel.next_attempt_at <= workload.state_since_at:
        _wait(channel, f"{workload.name}: {workload.error}", now)


def _wait(channel: Channel, error: str, now: datetime) -> None:
    """Again and again while it is wanted, with a growing pause; and somebody is told."""
    seconds = BACKOFF_SECONDS[min(channel.attempts, len(BACKOFF_SECONDS) - 1)]
    changes = {
        "error": error,
        "attempts": channel.attempts + 1,
        "next_attempt_at": now + timedelta(seconds=seconds),
    }
    Channel.objects.filter(pk=channel.pk, state=channel.state).update(**changes)
    for name, value in changes.items():
        setattr(channel, name, value)
    wake_scheduler()  # the loop does not know of this moment
    logger.error("A channel is not on air. channel=%s error=%s", channel.pk, error)
    alert(channel, "off_air", f"{channel} is not on air", error, now)


def _note_on_air(term: Term, channel: Channel, workload: Workload, now: datetime) -> None:
    since = workload.status(PlayoutStatus).first_frame_at or now
    with transaction.atomic():
        note = f"first frame; on {workload.node.name}"
        moved = channel.move(
            State.ON_AIR, now=now, note=note, on_air_since_at=since, attempts=0, next_attempt_at=None, error=""
        )
        if not moved:
            return
        failover.note_back(channel, workload, since)
        for trouble in ("off_air", "channel_error", "channel_trouble"):
            resolve_alert(f"{trouble}:{channel.owner}", now=now, note="it is on air")
    logger.info("On air. channel=%s node=%s", channel.pk, workload.node.name)
    _follow(term, channel, workload, now)


def _look_after(term: Term, channel: Channel, now: datetime) -> None:
    workload = workloads.latest(channel.owner)
    if workload is None or workload.is_over or not workload.is_wanted:
        failover.recover(channel, workload, now)
        if channel.state == State.FAILING_OVER:
            _bring_up(term, channel, now)
        return
    if failover.stands_still(workload):
        workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="no frame goes out")
        failover.recover(channel, workload, now, reason="no frame goes out")
        return
    _follow(term, channel, workload, now)


def _follow(term: Term, channel: Channel, workload: Workload, now: datetime) -> None:
    """Copy where it is and what went out, and tell it of another list."""
    status = workload.status(PlayoutStatus)
    place = codec.encode(status.place) if status.place is not None else None
    if place and place != channel.place:
        Channel.objects.filter(pk=channel.pk, state=State.ON_AIR).update(place=place)
        channel.place = place
    collection.collect(channel, workload)
    _watch_outputs(channel, workload, now)
    _watch_program(channel, workload, now)
    _pass_on_list(term, channel, workload, now)


def _pass_on_list(term: Term, channel: Channel, workload: Workload, now: datetime) -> None:
    """Its list was edited, or another day began: the worker is told. What is on stays on."""
    began, list_due = time.monotonic(), term.memory(Watched).list_due
    if began < list_due.get(workload.pk, began):
        return
    for pk in [pk for pk, due in list(list_due.items()) if began - due > 60]:
        list_due.pop(pk, None)  # of media workers that are gone
    told = workload.status(PlayoutStatus).rundown
    try:
        rundown = rundown_of(channel, now)
    finally:
        took = time.monotonic() - began
        list_due[workload.pk] = began + min(max(LIST_LOOK_SECONDS, LIST_SHARE * took), LIST_LONGEST_SECONDS)
    if not told or told == rundown.version:
        return
    try:
        tell(workload, rundown.command, PlayoutStatus)
        logger.info("A channel has another list. channel=%s version=%s", channel.pk, rundown.version)
        resolve_alert(f"list_refused:{channel.owner}", now=now, note="it was taken")
    except WorkerSilent as error:
        logger.warning("A list was not passed on; it is tried again. channel=%s error=%s", channel.pk, error)
    except WorkerRefused as error:
        logger.error("A list was refused. channel=%s error=%s", channel.pk, error)
        alert(channel, "list_refused", f"{channel} plays an old list", f"Its worker refused the new one: {error}", now)


def _watch_outputs(channel: Channel, workload: Workload, now: datetime) -> None:
    """An output that cannot be reached is no reason to touch the channel, but somebody must know."""
    waiting = [each for each in workload.status(PlayoutStatus).outputs if each.error and each.type != "preview"]
    failing = [each for each in waiting if each.state != "sending"]
    if failing:
        names = {str(output.pk): str(output) for output in channel.outputs.all()}
        text = "\n".join(f"{names.get(each.key, each.type)}: {each.error}" for each in failing)
        alert(channel, "output", f"{channel}: an output does not get through", text, now, Severity.WARNING)
    elif not waiting:
        resolve_alert(f"output:{channel.owner}", now=now, note="it gets through")


def _watch_program(channel: Channel, workload: Workload, now: datetime) -> None:
    """On air, but with nothing worth seeing: frames go out, so nothing is moved, but somebody must know (P-09)."""
    status = workload.status(PlayoutStatus)
    if status.bars_seconds >= BARS_SECONDS:
        item = status.item.title if status.item else ""
        what = f"{item} gives no picture." if item else "Nothing of its list can be played, or nothing is planned."
        text = f"{what} {status.error} As-run says what was passed over, and why."
        alert(channel, "bars", f"{channel} shows its slate", text, now)
    elif status.state != "slate":
        resolve_alert(f"bars:{channel.owner}", now=now, note="there is a picture again")
    if status.list_failed_seconds >= BARS_SECONDS:
        text = f"The filler is on. {status.error} As-run says what was passed over, and why."
        alert(channel, "list_failed", f"{channel}: nothing of its list can be played", text, now)
    else:
        resolve_alert(f"list_failed:{channel.owner}", now=now, note="it plays")
    if status.dropping_seconds >= BARS_SECONDS:
        text = f"{status.dropped} frames were left out so far: its machine has too much to do."
        alert(channel, "dropping", f"{channel} loses frames: its encoder cannot keep up", text, now)
    else:
        resolve_alert(f"dropping:{channel.owner}", now=now, note="it keeps up")
    if status.loop_age_seconds > HUNG_LOOP_SECONDS:
        text = "It plays on, but opens nothing new: usually its storage does not answer. Nothing is moved."
        alert(channel, "stuck", f"{channel}: its worker waits for something", text, now)
    else:
        resolve_alert(f"stuck:{channel.owner}", now=now, note="it goes on")


def _bring_down(channel: Channel, now: datetime) -> None:
    workload = workloads.latest(channel.owner)
    if workload is not None and workload.is_wanted:
        if workload.state == Workload.State.RUNNING:
            collection.collect(channel, workload, is_last=True)  # what began a moment ago is told by nobody else
        workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="off air")
        workload.refresh_from_db()
    if workload is not None and not workload.is_over:
        if channel.deadline_at and now > channel.deadline_at:
            Channel.objects.filter(pk=channel.pk, state=channel.state).update(
                deadline_at=now + Channel.DEADLINES[State.STOPPING]
            )
            text = "It was told to stop and has not confirmed it."
            alert(channel, "not_stopping", f"{channel} does not go off air", text, now)
        return
    with transaction.atomic():
        release(channel.owner, now=now)
        if not channel.move(State.OFF_AIR, now=now, place={}, on_air_since_at=None, error=""):
            return
        collection.close_open(channel, now, "stopped", "")
        Recovery.objects.filter(channel=channel, back_at=None).update(back_at=now)
        for trouble in TROUBLES:
            resolve_alert(f"{trouble}:{channel.owner}", now=now, note="it is off air")


def alert(
    channel: Channel, kind: str, title: str, text: str, now: datetime, severity: Severity = Severity.CRITICAL
) -> None:
    raise_alert(
        f"{kind}:{channel.owner}",
        title,
        now=now,
        severity=severity,
        text=text,
        subject=channel.owner,
        project=channel.project,
    )
