"""What people do with a channel: start, stop, play, pause, skip, cue, insert, move. The same for admin, commands, HTTP.

Start and Stop write what is wanted and then drive this one channel in the very request, so that they work and answer in
words without any scheduler. The others are words to the worker, passed on at once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError

from nodes import workloads
from nodes.models import Node, Workload
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, fetch, tell
from nodes.workloads.reconcile import reconcile
from playout.channels import failover
from playout.channels.lifecycle import advance
from playout.lists.insertion import CannotInsert, Wish, insert_behind
from playout.lists.rundown import rundown_of
from playout.models import Channel, PlaylistItem, Recovery
from scheduling.recording.controls import sentence
from station import audit
from station.clock import database_now
from station.database.notify import wake_scheduler
from worker.wire.commands import Command, Cue, Pause, Play, Skip
from worker.wire.status import PlayoutStatus

State = Channel.State
WORDS = {"play": "plays", "pause": "is paused", "skip": "goes on to the next item", "cue": "has its next item"}

TRANSPORT: dict[str, type[Command]] = {"play": Play, "pause": Pause, "skip": Skip}


@dataclass(frozen=True)
class Outcome:
    """What to tell the person. `is_good` decides the colour of the message."""

    is_good: bool
    text: str


def do(word: str, channel: Channel, *, by: str) -> Outcome:
    """What a button or a call is named after."""
    acts: dict[str, Callable[..., Outcome]] = {"start": start, "stop": stop, "move": move}
    return acts[word](channel, by=by) if word in acts else command(channel, word, by=by)


def start(channel: Channel, *, by: str) -> Outcome:
    """It shall be on air, from now until somebody stops it."""
    if not channel.outputs.filter(is_active=True).exists():
        return Outcome(False, f"{channel} has no output: nobody would see it.")
    now = database_now()
    before = {"wanted": channel.is_wanted, "state": channel.state}
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True)
    channel.refresh_from_db()
    if channel.state in {State.ERROR, State.OFF_AIR}:
        channel.move(State.STARTING, now=now, by=by, attempts=0, next_attempt_at=None, error="")
    audit.record(by, "start", channel, before=before, after={"wanted": True, "state": channel.state})
    wake_scheduler()
    _drive(channel, lambda: channel.state in {State.ON_AIR, State.ERROR})
    return _tell_start(channel)


def stop(channel: Channel, *, by: str) -> Outcome:
    """It shall be off air."""
    if not channel.is_wanted and channel.state == State.OFF_AIR:
        return Outcome(False, f"{channel} is off air.")
    before = {"wanted": channel.is_wanted, "state": channel.state}
    Channel.objects.filter(pk=channel.pk).update(is_wanted=False)
    channel.refresh_from_db()
    if channel.may_move(State.STOPPING):
        channel.move(State.STOPPING, now=database_now(), by=by, note="stopped by hand")
    audit.record(by, "stop", channel, before=before, after={"wanted": False, "state": channel.state})
    wake_scheduler()
    _drive(channel, lambda: channel.state == State.OFF_AIR)
    if channel.state != State.OFF_AIR:
        return Outcome(False, f"{channel} is told to stop; it has not confirmed it yet. Airlock keeps trying.")
    return Outcome(True, f"{channel} is off air.")


def command(channel: Channel, word: str, *, by: str, item: PlaylistItem | None = None, take: bool = False) -> Outcome:
    """play, pause, skip or cue: passed on to the worker at once."""
    workload = workloads.latest(channel.owner)
    if channel.state != State.ON_AIR or workload is None or workload.state != Workload.State.RUNNING:
        return Outcome(False, f"{channel} is {channel.state_word}.")
    try:
        status = tell(workload, Cue(str(item.pk), take) if item else TRANSPORT[word](), PlayoutStatus)
    except WorkerSilent as silence:
        return Outcome(False, f"The worker of {channel} does not answer: {sentence(str(silence))}")
    except WorkerRefused as refusal:
        return Outcome(False, f"{channel}: {sentence(str(refusal))}")
    audit.record(by, word, channel, after={"item": item.shown_title if item else "", "state": status.state})
    words = f"goes over to {item.shown_title}" if item and take else WORDS[word]
    return Outcome(True, f"{channel} {words}.")


def insert(channel: Channel, wish: Wish, *, by: str, take: bool = False) -> Outcome:
    """A clip nobody had planned: next, or with `take` now. It stands in the list then, and stays there."""
    workload = workloads.latest(channel.owner)
    if channel.state != State.ON_AIR or workload is None or workload.state != Workload.State.RUNNING:
        return Outcome(False, f"{channel} is {channel.state_word}.")
    try:
        item = insert_behind(channel, wish, fetch(workload, "/status", PlayoutStatus))
    except WorkerSilent as silence:
        return Outcome(False, f"The worker of {channel} does not answer: {sentence(str(silence))}")
    except CannotInsert as refusal:
        return Outcome(False, f"{channel}: {sentence(str(refusal))}")
    except ValidationError as error:
        words = [f"{name}: {text}" for name, texts in error.message_dict.items() for text in texts]
        return Outcome(False, f"{channel}: {' '.join(words)}")
    audit.record(by, "insert", channel, after={"item": item.shown_title, "list": str(item.playlist)})
    where = f"It stands in {item.playlist} now."
    try:
        status = tell(workload, rundown_of(channel, database_now()).command, PlayoutStatus)
        if take:
            tell(workload, Cue(str(item.pk), take=True), PlayoutStatus)
    except (WorkerSilent, WorkerRefused) as error:
        return Outcome(False, f"{where} The worker of {channel} was not told yet: {sentence(str(error))}")
    if take:
        return Outcome(True, f"{channel} goes over to {item.shown_title}. {where}")
    if status.next is not None and status.next.key == str(item.pk):
        return Outcome(True, f"{channel} has {item.shown_title} as its next item. {where}")
    before = status.next.title if status.next else "something else"
    return Outcome(True, f"{item.shown_title}: {where} Before it comes {before}.")


def move(channel: Channel, *, by: str, to_node: Node | None = None, reason: str = "moved by hand") -> Outcome:
    """To another machine, now (P-11)."""
    refusal = failover.move_by_hand(channel, database_now(), by=by, to_node=to_node, reason=reason)
    if refusal:
        return Outcome(False, f"{channel} was not moved: {refusal}.")
    wake_scheduler()
    _drive(channel, lambda: channel.state in {State.ON_AIR, State.ERROR})
    if channel.state != State.ON_AIR:
        return Outcome(False, f"{channel} is {channel.state_word}; Airlock keeps at it. {channel.error}".strip())
    done = Recovery.objects.filter(channel=channel).first()
    workload = workloads.latest(channel.owner)
    seconds = f"{done.off_air_seconds:.1f} s off air" if done and done.off_air_seconds is not None else "back"
    return Outcome(True, f"{channel} is on air from {workload.node if workload else '?'}: {seconds}.")


def _drive(channel: Channel, is_done: Callable[[], bool]) -> None:
    """Reconcile and advance this one channel until it is where it should be or the person has waited enough."""
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
        return Outcome(True, f"{channel} is on air{where}.")
    reason = channel.error or (workload.error if workload else "")
    return Outcome(False, f"{channel} is {channel.state_word}{where}; Airlock keeps at it. {reason}".strip())
