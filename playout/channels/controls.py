"""The actions on a channel: start, stop, play, pause, skip, cue, insert, move. Admin, commands and HTTP share them.

Start, Stop and Move store what is wanted and then advance the channel within the request, so that they work without a
running scheduler. The others are commands to the media worker, sent at once.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError

from assets.models import Asset
from nodes import workloads
from nodes.models import Node, Workload
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, fetch, tell
from nodes.workloads.reconcile import reconcile
from playout.channels import failover
from playout.channels.lifecycle import advance
from playout.channels.port_watch import keep_outputs, warnings_of
from playout.lists.insertion import CannotInsert, Wish, insert_behind
from playout.lists.reservations import watch_soon
from playout.lists.rundown import rundown_of
from playout.models import Channel, PlaylistItem, Recovery
from scheduling.recording.controls import sentence
from station.actions import Outcome, Refusal, action, done, nothing, refused
from station.clock import database_now
from station.database.notify import wake_scheduler
from worker.wire.commands import Command, Cue, Pause, Play, Skip
from worker.wire.status import PlayoutStatus

State = Channel.State
OPERATE = "playout.operate_channel"
WORDS = {"play": "plays", "pause": "is paused", "skip": "skips to the next item", "cue": "has its next item"}

COMMANDS: dict[str, type[Command]] = {"play": Play, "pause": Pause, "skip": Skip}
ON_AIR = (State.ON_AIR,)
# By then the media worker has reported its new place, so the times of live items can be computed.
SHIFT_KNOWN_AFTER = timedelta(seconds=3)


def is_startable(channel: Channel) -> bool:
    return not channel.is_wanted or channel.state == State.ERROR


def is_stoppable(channel: Channel) -> bool:
    return channel.is_wanted or channel.state != State.OFF_AIR


@action("start", "Start", permission=OPERATE, when=is_startable)
def start(channel: Channel, *, now: datetime, by: str) -> Outcome:
    """Put the channel on air until Stop."""
    if not channel.outputs.filter(is_active=True).exists():
        return refused(f"{channel} has no output. Add an active output first.")
    is_ours = bool(Channel.objects.filter(pk=channel.pk, is_wanted=False).update(is_wanted=True))
    channel.refresh_from_db()
    if channel.state in {State.ERROR, State.OFF_AIR}:
        changes: dict[str, Any] = {"attempts": 0, "next_attempt_at": None, "error": ""}
        is_ours = channel.move(State.STARTING, now=now, by=by, **changes) or is_ours
    wake_scheduler()
    _drive(channel, lambda: channel.state in {State.ON_AIR, State.ERROR})
    outcome = _tell_start(channel)
    return outcome if is_ours else nothing(outcome.text)


@action("stop", "Stop", permission=OPERATE, when=is_stoppable)
def stop(channel: Channel, *, now: datetime, by: str) -> Outcome:
    """Take the channel off air."""
    was_wanted = Channel.objects.filter(pk=channel.pk, is_wanted=True).update(is_wanted=False)
    channel.refresh_from_db()
    is_ours = bool(was_wanted)
    if channel.may_move(State.STOPPING):
        is_ours = channel.move(State.STOPPING, now=now, by=by, note="stopped by hand") or is_ours
    wake_scheduler()
    _drive(channel, lambda: channel.state == State.OFF_AIR)
    if channel.state != State.OFF_AIR:
        text = f"{channel} was asked to stop and has not confirmed it yet. Airlock keeps trying."
        return done(text, needs_attention=True) if is_ours else nothing(text)
    return done(f"{channel} is off air.") if is_ours else nothing(f"{channel} is off air.")


def _running_workload(channel: Channel) -> Workload:
    workload = workloads.latest(channel.owner)
    if channel.state != State.ON_AIR or workload is None or workload.state != Workload.State.RUNNING:
        raise Refusal(f"{channel} is {channel.state_word}.")
    return workload


def _command(channel: Channel, word: str, item: PlaylistItem | None = None, take: bool = False) -> Outcome:
    """Send play, pause, skip or cue to the media worker."""
    workload = _running_workload(channel)
    try:
        status = tell(workload, Cue(str(item.pk), take) if item else COMMANDS[word](), PlayoutStatus)
    except WorkerSilent as silence:
        return refused(f"The media worker of {channel} does not answer: {sentence(str(silence))}")
    except WorkerRefused as refusal:
        return refused(f"{channel}: {sentence(str(refusal))}")
    result = f"switches to {item.shown_title}" if item and take else WORDS[word]
    watch_soon([channel], database_now() + SHIFT_KNOWN_AFTER)
    details = {"item": item.shown_title if item else "", "media_worker": status.state}
    return done(f"{channel} {result}.", details=details)


@action("play", "Play", permission=OPERATE, states=ON_AIR)
def play(channel: Channel, *, now: datetime, by: str) -> Outcome:
    return _command(channel, "play")


@action("pause", "Pause", permission=OPERATE, states=ON_AIR)
def pause(channel: Channel, *, now: datetime, by: str) -> Outcome:
    return _command(channel, "pause")


@action("skip", "Skip", permission=OPERATE, states=ON_AIR)
def skip(channel: Channel, *, now: datetime, by: str) -> Outcome:
    return _command(channel, "skip")


@action("cue", "Cue", permission=OPERATE, states=ON_AIR)
def cue(channel: Channel, *, now: datetime, by: str, item: PlaylistItem, take: bool = False) -> Outcome:
    return _command(channel, "cue", item, take)


@action("insert", "Insert", permission=(OPERATE, "playout.change_playlist"), states=ON_AIR)
def insert(
    channel: Channel,
    *,
    now: datetime,
    by: str,
    asset: Asset,
    in_seconds: float = 0.0,
    out_seconds: float | None = None,
    take: bool = False,
) -> Outcome:
    """Insert a clip as the next item, or with `take` now. It changes the list, so it needs that permission too."""
    workload = _running_workload(channel)
    try:
        status = fetch(workload, "/status", PlayoutStatus)
        item = insert_behind(channel, Wish(asset, in_seconds, out_seconds), status)
    except WorkerSilent as silence:
        return refused(f"The media worker of {channel} does not answer: {sentence(str(silence))}")
    except CannotInsert as refusal:
        return refused(f"{channel}: {sentence(str(refusal))}")
    except ValidationError as error:
        problems = [f"{name}: {text}" for name, texts in error.message_dict.items() for text in texts]
        return refused(f"{channel}: {' '.join(problems)}")
    return _pass_on_insertion(channel, workload, item, take)


def _pass_on_insertion(channel: Channel, workload: Workload, item: PlaylistItem, take: bool) -> Outcome:
    watch_soon([channel], database_now() + SHIFT_KNOWN_AFTER)
    details = {"item": item.shown_title, "list": str(item.playlist)}
    where = f"It was added to {item.playlist}."
    try:
        status = tell(workload, rundown_of(channel, database_now()).command, PlayoutStatus)
        if take:
            tell(workload, Cue(str(item.pk), take=True), PlayoutStatus)
    except (WorkerSilent, WorkerRefused) as error:
        text = f"{item.shown_title}: {where} The media worker of {channel} does not have it yet: {sentence(str(error))}"
        return done(text, details=details, needs_attention=True)
    if take:
        return done(f"{channel} switches to {item.shown_title}. {where}", details=details)
    if status.item is not None and status.item.key == str(item.pk):  # nothing else was on air
        return done(f"{channel} shows {item.shown_title}. {where}", details=details)
    if status.next is not None and status.next.key == str(item.pk):
        return done(f"{channel} has {item.shown_title} as its next item. {where}", details=details)
    before = status.next.title if status.next else "Another item"
    return done(f"{item.shown_title}: {where} {before} comes before it.", details=details)


@action("move", "Move", permission=OPERATE, states=(State.ON_AIR, State.FAILING_OVER))
def move(
    channel: Channel, *, now: datetime, by: str, to_node: Node | None = None, reason: str = "moved by hand"
) -> Outcome:
    """Move the channel to another machine now (P-11)."""
    try:
        target = failover.move_by_hand(channel, now, by=by, to_node=to_node, reason=reason)
    except failover.CannotMove as refusal:
        return refused(f"{channel} was not moved: {refusal}.")
    if target is None:
        return nothing(f"{channel} was not moved: another move is in progress.")
    details = {"to": str(target), "reason": reason}
    wake_scheduler()
    _drive(channel, lambda: channel.state in {State.ON_AIR, State.ERROR})
    if channel.state != State.ON_AIR:
        text = f"{channel} is {channel.state_word}. Airlock keeps trying. {channel.error}".strip()
        return done(text, details=details, needs_attention=True)
    recovery = Recovery.objects.filter(channel=channel).first()
    workload = workloads.latest(channel.owner)
    seconds = (
        f"{recovery.off_air_seconds:.1f} s off air" if recovery and recovery.off_air_seconds is not None else "back"
    )
    return done(f"{channel} is on air from {workload.node if workload else '?'} ({seconds}).", details=details)


def _drive(channel: Channel, is_done: Callable[[], bool]) -> None:
    """Reconcile and advance this channel until it is done or MANUAL_WAIT_SECONDS have passed."""
    deadline = time.monotonic() + settings.MANUAL_WAIT_SECONDS
    while True:
        advance(channel, database_now())
        for workload in Workload.objects.to_look_at().filter(owner=channel.owner):
            reconcile(workload.pk)
        channel.refresh_from_db()
        advance(channel, database_now())
        channel.refresh_from_db()
        if is_done() or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if channel.state == State.OFF_AIR:
        for workload in Workload.objects.to_look_at().filter(owner=channel.owner):
            reconcile(workload.pk)


def _tell_start(channel: Channel) -> Outcome:
    workload = workloads.latest(channel.owner)
    where = f" from {workload.node}" if workload else ""
    if channel.state == State.ON_AIR:
        warnings = warnings_of(keep_outputs(channel, database_now()))
        return done(" ".join([f"{channel} is on air{where}.", *warnings]))
    reason = channel.error or (workload.error if workload else "")
    text = f"{channel} is {channel.state_word}{where}. Airlock keeps trying. {reason}".strip()
    return done(text, needs_attention=True)


TRANSPORT = {each.name: each for each in (start, stop, play, pause, skip, move)}
