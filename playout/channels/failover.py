"""Brings a channel back on air: records the loss, chooses the node, and stops after too many failures (P-03 to P-08).

Fencing: a media worker that can be reached is ended before its successor starts (`lifecycle` waits for that). One on a
lost machine cannot be ended, so its workload is lost and it is ended when the machine returns. A name is never reused.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F

from nodes import workloads
from nodes.machines.placement import NoPlace, choose
from nodes.models import Node, Workload
from nodes.models.workload import NODE_GONE
from playout.asrun import collection
from playout.channels.workload_spec import needs_of
from playout.models import Channel, Recovery
from station.alerts import raise_alert
from station.models.alert import Severity
from station.states import SCHEDULER
from worker.wire.status import PlayoutStatus

logger = logging.getLogger(__name__)

State = Channel.State
WITHIN = timedelta(minutes=10)
STILL_SECONDS = 8.0
PAUSE_WORDS = "ten minutes after the first of them, or when you press Start"
RUNBOOK = "See “A channel on a DeckLink card is off air” in docs/operations.md."


def sends_no_frames(workload: Workload) -> bool:
    """The media worker answers, but no frame goes out."""
    age = workload.status(PlayoutStatus).last_frame_age_seconds
    return age is not None and age > STILL_SECONDS


def last_frame_at(workload: Workload | None, now: datetime) -> datetime:
    """The time of the last frame that is known to have been sent."""
    if workload is None or workload.heartbeat_at is None:
        return now
    return workload.heartbeat_at - timedelta(seconds=workload.status(PlayoutStatus).last_frame_age_seconds or 0.0)


def recover(channel: Channel, workload: Workload | None, now: datetime, reason: str = "") -> None:
    """The media worker is gone: restart or move the channel, or stop and say why a person must act."""
    reason = reason or (workload.error or workload.exit_reason if workload else "its media worker is gone")
    is_gone = workload is not None and workload.exit_reason == NODE_GONE
    lost_at = last_frame_at(workload, now)
    collection.close_open(channel, lost_at, "lost", reason)
    if is_gone and channel.has_card:
        # P-06: the output is a cable of that machine. It may still be on air, so that media worker is not ended.
        _give_up(channel, now, f"{reason} {RUNBOOK}", may_play=True)
        return
    recent = list(Recovery.recent(channel, now - WITHIN)[: settings.MAX_RECOVERIES])
    if len(recent) >= settings.MAX_RECOVERIES:
        again_at = recent[-1].noticed_at + WITHIN if recent else now + WITHIN
        text = (
            f"It failed {len(recent)} times within ten minutes. The next try is {PAUSE_WORDS}. Last failure: {reason}"
        )
        _give_up(channel, now, text, again_at)
        return
    kind = Recovery.Kind.MOVE if is_gone else Recovery.Kind.RESTART
    begin(channel, workload, now, kind=kind, reason=reason, by=SCHEDULER, lost_at=lost_at)


def begin(
    channel: Channel,
    workload: Workload | None,
    now: datetime,
    *,
    kind: str,
    reason: str,
    by: str,
    lost_at: datetime,
    to_node: Node | None = None,
) -> bool:
    """Move to FAILING_OVER and write the Recovery, in one transaction."""
    with transaction.atomic():
        moved = channel.move(
            State.FAILING_OVER,
            now=now,
            by=by,
            note=reason,
            restart_count=F("restart_count") + 1,
            attempts=0,
            next_attempt_at=None,
        )
        if not moved:
            return False
        channel.refresh_from_db(fields=["restart_count"])
        Recovery.objects.create(
            channel=channel,
            kind=kind,
            reason=reason,
            by=by,
            from_node=workload.node if workload else None,
            to_node=to_node,
            lost_at=lost_at,
            noticed_at=now,
        )
    level = logging.INFO if kind == Recovery.Kind.BY_HAND else logging.ERROR
    logger.log(level, "A channel is being restarted or moved. channel=%s kind=%s reason=%s", channel.pk, kind, reason)
    return True


def _give_up(
    channel: Channel, now: datetime, text: str, again_at: datetime | None = None, *, may_play: bool = False
) -> None:
    """A person must act. If nobody does, the next try is at `again_at`, so that the channel is not off air for ever."""
    if not channel.move(State.ERROR, now=now, note=text, error=text, next_attempt_at=again_at):
        return
    if not may_play:
        workloads.unwant(channel.owner, now=now, by=SCHEDULER, note="a person must act")
    raise_alert(
        f"channel_error:{channel.owner}",
        f"{channel} {'does not answer and may be off air' if may_play else 'is off air'}: a person must act",
        now=now,
        severity=Severity.CRITICAL,
        text=text,
        subject=channel.owner,
        project=channel.project,
    )


def where_to(channel: Channel, previous: Workload | None) -> tuple[frozenset[int], Node | None]:
    """The nodes to avoid, and the one to use, if there is one. A restart uses the same node if it is up."""
    recovery = Recovery.open_of(channel)
    is_first = channel.attempts == 0
    if recovery is not None and is_first and recovery.kind == Recovery.Kind.BY_HAND and recovery.to_node is not None:
        return frozenset(), recovery.to_node
    if recovery is not None and is_first and recovery.kind == Recovery.Kind.RESTART and previous is not None:
        return frozenset(), previous.node if _can_take(previous.node) else None
    # Avoid the lost node, and the one that failed since.
    lost = {recovery.from_node_id} if recovery is not None and recovery.kind == Recovery.Kind.MOVE else set()
    tried = {previous.node_id} if previous is not None and (recovery is not None or not is_first) else set()
    return frozenset(pk for pk in {*lost, *tried} if pk is not None), None


def _can_take(node: Node) -> bool:
    return node.state == Node.State.UP and not node.is_draining


def note_back(channel: Channel, workload: Workload, since: datetime) -> None:
    """The channel is on air again: record how long it was off air."""
    recovery = Recovery.open_of(channel)
    if recovery is None:
        return
    seconds = max(0.0, (since - recovery.lost_at).total_seconds())
    Recovery.objects.filter(channel=channel, back_at=None).update(
        back_at=since, off_air_seconds=round(seconds, 3), to_node=workload.node
    )


class CannotMove(Exception):
    """The channel cannot be moved. The text says why."""


def target_of(channel: Channel, now: datetime, to_node: Node | None = None) -> Node:
    """The node that a move by hand would use. Raises CannotMove."""
    if channel.state not in {State.ON_AIR, State.FAILING_OVER}:
        raise CannotMove(f"it is {channel.state_word}")
    workload = workloads.latest(channel.owner)
    here = workload.node if workload is not None and not workload.is_over else None
    if to_node is not None and here is not None and to_node.pk == here.pk:
        raise CannotMove(f"it is already on {to_node}")
    if channel.has_card and to_node is None:
        raise CannotMove("its output is a card: name the machine that has the cable (--to)")  # P-06
    try:
        avoid = frozenset({here.pk}) if here is not None else frozenset[int]()
        target = choose(needs_of(channel, now, node=to_node, avoid=avoid), now)
    except NoPlace as refusal:
        raise CannotMove(f"no node can take it: {str(refusal).rstrip('.')}") from refusal
    if here is not None and target.pk == here.pk:
        raise CannotMove(f"it is bound to {here}" if channel.node_id else "there is no other node that can take it")
    return target


def move_by_hand(channel: Channel, now: datetime, *, by: str, to_node: Node | None, reason: str) -> Node | None:
    """P-11: move it now. Returns the node, or None if another move is in progress. Raises CannotMove."""
    target = target_of(channel, now, to_node)
    workload = workloads.latest(channel.owner)
    with transaction.atomic():
        if not _send_to(channel, workload, target, now, by=by, reason=reason):
            return None
        workloads.unwant(channel.owner, now=now, by=by, note=reason)
        collection.close_open(channel, now, "moved", reason)
    return target


def _send_to(channel: Channel, workload: Workload | None, target: Node, now: datetime, *, by: str, reason: str) -> bool:
    kind = Recovery.Kind.BY_HAND
    if channel.state == State.ON_AIR:
        return begin(channel, workload, now, kind=kind, reason=reason, by=by, lost_at=now, to_node=target)
    # It is being moved already: change the target.
    waiting = Channel.objects.filter(pk=channel.pk, state=State.FAILING_OVER)
    if not waiting.update(attempts=0, next_attempt_at=now):
        return False
    Recovery.objects.filter(channel=channel, back_at=None).update(kind=kind, to_node=target)
    channel.refresh_from_db()
    return True
