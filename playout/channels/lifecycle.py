"""The states of a channel. `advance` takes one step; the scheduler's loop and the Start and Stop buttons both call it.

off_air -> starting -> on_air -> stopping -> off_air; on_air -> failing_over -> on_air; error waits for a person. Each
step compares what is wanted with the workload row of the media worker (`nodes.workloads.reconcile` keeps it current).
While a channel is wanted, Airlock keeps trying. It stops only for a fault that a person must fix, and it pauses after
too many failures in a short time.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from nodes import workloads
from nodes.machines.placement import NoPlace
from nodes.machines.ports import PortTaken, release
from nodes.models import Node, Workload
from playout.asrun import collection
from playout.channels import failover
from playout.channels.channel_alerts import TROUBLES, alert, resolve
from playout.channels.list_updates import pass_on_list
from playout.channels.on_air_watch import watch_on_air
from playout.channels.port_watch import check_bookings_again
from playout.channels.workload_spec import ask_for_worker
from playout.lists.reservations import settle, watch_soon
from playout.models import Channel, Recovery
from station.clock import is_pause_over
from station.database.notify import wake_scheduler
from station.leader_term import Term
from station.sealing import CannotOpen
from station.states import SCHEDULER
from worker.wire.status import PlayoutStatus

logger = logging.getLogger(__name__)

State = Channel.State
BACKOFF_SECONDS = (1, 2, 5, 10)
PREDECESSOR_PATIENCE = timedelta(seconds=10)
SENDING = (Workload.State.REQUESTED, Workload.State.STARTING, Workload.State.RUNNING)


def advance(channel: Channel, now: datetime, term: Term | None = None) -> None:
    """Take this channel one step further. A request from a person has no term, so it keeps no memory."""
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
        channel.move(State.STARTING, now=now, note="automatic retry", attempts=0, next_attempt_at=None)
    if channel.is_wanted and channel.state == State.ERROR:
        _note_return(term, channel, now)
    if channel.state in {State.STARTING, State.FAILING_OVER}:
        _bring_up(term, channel, now)
    if channel.state == State.ON_AIR:
        _check_on_air(term, channel, now)
    if channel.state == State.STOPPING:
        _bring_down(channel, now)


def _bring_up(term: Term, channel: Channel, now: datetime) -> None:
    workload = workloads.latest(channel.owner)
    if workload is not None and not workload.is_over and workload.is_wanted:
        if workload.state == Workload.State.RUNNING and workload.status(PlayoutStatus).frames:
            _note_on_air(term, channel, workload, now)
        elif channel.deadline_at is not None and now > max(channel.deadline_at, _patience_until(channel, workload)):
            _replace_without_picture(channel, workload, now)
        return
    if workload is not None and workload.is_wanted and workload.created_at >= channel.state_since_at:
        _note_failed_start(channel, workload, now)
    if not is_pause_over(channel.next_attempt_at, now, BACKOFF_SECONDS[-1]):
        return
    if _predecessor_lingers(channel, now):
        return
    try:
        avoid, node = failover.where_to(channel, workload)
        ask_for_worker(channel, now, avoid=avoid, node=node)
    except (NoPlace, PortTaken, workloads.NoControlPort, CannotOpen) as fault:
        _wait(channel, f"No place to play from: {fault}", now)


def _note_return(term: Term, channel: Channel, now: datetime) -> None:
    """Put a channel in error back on air if its machine is reachable again and its media worker still plays (P-06)."""
    workload = workloads.latest(channel.owner)
    is_playing = workload is not None and workload.is_wanted and workload.state == Workload.State.RUNNING
    if workload is not None and is_playing and workload.status(PlayoutStatus).frames:
        _note_on_air(term, channel, workload, now)


def _patience_until(channel: Channel, workload: Workload) -> datetime:
    """Each media worker gets the full time to show a picture, however long the channel waited for a node before."""
    return workload.created_at + Channel.DEADLINES[State(channel.state)]


def _replace_without_picture(channel: Channel, workload: Workload, now: datetime) -> None:
    """End a media worker that shows no picture in time. The next one starts on another node if possible (P-05)."""
    reason = workload.status(PlayoutStatus).error or f"{workload.name} gives no picture"
    workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="no picture in time")
    deadline = now + Channel.DEADLINES[State(channel.state)]
    Channel.objects.filter(pk=channel.pk, state=channel.state).update(deadline_at=deadline)
    channel.deadline_at = deadline
    _wait(channel, f"No picture in time: {reason}", now)


def _predecessor_lingers(channel: Channel, now: datetime) -> bool:
    """Whether the previous media worker may still send. Only one may send at a time, so its successor waits a while."""
    # A media worker that was heard a moment ago is near even if its node is down: it is ended through its own port.
    is_near = Q(node__state=Node.State.UP) | Q(heartbeat_at__gt=now - PREDECESSOR_PATIENCE)
    # A media worker with an exit code has ended, even if its container is not removed yet.
    lingering = Workload.objects.to_look_at().filter(is_near, owner=channel.owner, exit_code=None)
    # A media worker that was not asked to stop yet still sends, however long it has been running.
    is_fresh = Q(state__in=SENDING) | Q(state_since_at__gt=now - PREDECESSOR_PATIENCE)
    return lingering.exclude(state=Workload.State.LOST).filter(is_fresh).exists()


def _note_failed_start(channel: Channel, workload: Workload, now: datetime) -> None:
    """Wait before the next attempt: the media worker of this attempt ended without being asked to."""
    # Note each end only once: after that the pause ends later than the media worker did, even if "No place" followed.
    if channel.next_attempt_at is None or channel.next_attempt_at <= workload.state_since_at:
        _wait(channel, f"{workload.name}: {workload.error}", now)


def _wait(channel: Channel, error: str, now: datetime) -> None:
    """Set the time of the next attempt, with a growing pause, and raise an alert."""
    seconds = BACKOFF_SECONDS[min(channel.attempts, len(BACKOFF_SECONDS) - 1)]
    changes = {
        "error": error,
        "attempts": channel.attempts + 1,
        "next_attempt_at": now + timedelta(seconds=seconds),
    }
    Channel.objects.filter(pk=channel.pk, state=channel.state).update(**changes)
    for name, value in changes.items():
        setattr(channel, name, value)
    wake_scheduler()  # so that the loop learns of next_attempt_at
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
            resolve(channel, trouble, now, "the channel is on air")
    logger.info("A channel is on air. channel=%s node=%s", channel.pk, workload.node.name)
    _follow(term, channel, workload, now)


def _check_on_air(term: Term, channel: Channel, now: datetime) -> None:
    workload = workloads.latest(channel.owner)
    if workload is not None:
        _copy_place(channel, workload)
    if workload is None or workload.is_over or not workload.is_wanted:
        failover.recover(channel, workload, now)
        if channel.state == State.FAILING_OVER:
            _bring_up(term, channel, now)
        return
    if failover.sends_no_frames(workload):
        workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="no frame goes out")
        failover.recover(channel, workload, now, reason="no frame goes out")
        return
    _follow(term, channel, workload, now)


def _follow(term: Term, channel: Channel, workload: Workload, now: datetime) -> None:
    """Copy the as-run entries, watch the outputs and the picture, and send a changed list."""
    collection.collect(channel, workload)
    watch_on_air(channel, workload.status(PlayoutStatus), now)
    pass_on_list(term, channel, workload, now)


def _copy_place(channel: Channel, workload: Workload) -> None:
    """Where it is in its list. The next media worker continues from there."""
    place = workload.progress.get("place")
    if place and place != channel.place and workload.is_wanted:
        Channel.objects.filter(pk=channel.pk, state=State.ON_AIR).update(place=place)
        channel.place = place


def _bring_down(channel: Channel, now: datetime) -> None:
    workload = workloads.latest(channel.owner)
    if workload is not None and workload.is_wanted:
        if workload.state == Workload.State.RUNNING:
            collection.collect(channel, workload, is_last=True)  # the last chance to learn what began a moment ago
        workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="off air")
        workload.refresh_from_db()
    if workload is not None and not workload.is_over:
        if channel.deadline_at and now > channel.deadline_at:
            Channel.objects.filter(pk=channel.pk, state=channel.state).update(
                deadline_at=now + Channel.DEADLINES[State.STOPPING]
            )
            text = "It was asked to stop and has not confirmed it. Airlock keeps trying."
            alert(channel, "not_stopping", f"{channel} does not go off air", text, now)
        return
    with transaction.atomic():
        check_bookings_again(channel, now)
        release(channel.owner, now=now)
        if not channel.move(State.OFF_AIR, now=now, place={}, on_air_since_at=None, error=""):
            return
        settle(channel, now)
        watch_soon([channel], now)
        collection.close_open(channel, now, "stopped", "")
        Recovery.objects.filter(channel=channel, back_at=None).update(back_at=now)
        for trouble in TROUBLES:
            resolve(channel, trouble, now, "the channel is off air")
