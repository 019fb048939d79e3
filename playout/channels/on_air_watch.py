"""Raises alerts about a channel that is on air but has a failing output or no worthwhile picture.

Frames go out, so nothing is restarted or moved here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from nodes.workloads.poll import HUNG_LOOP_SECONDS
from playout.channels.channel_alerts import alert, resolve_all
from playout.models import Channel
from station.models.alert import Severity
from worker.wire.status import PlayoutStatus, ReturnStatus

# A state that lasts this long raises an alert.
BARS_SECONDS = 20.0


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong on air."""

    kind: str
    title: str
    text: str
    severity: Severity = Severity.CRITICAL


@dataclass(frozen=True)
class Fine:
    """What an alert of this kind was about is over, with the note for it."""

    kind: str
    note: str


def watch_on_air(channel: Channel, status: PlayoutStatus, now: datetime) -> None:
    """Raise an alert for each trouble, and resolve those that are over."""
    found = [*_outputs(channel, status), *_program(channel, status), *_returned(channel, status)]
    for each in found:
        if isinstance(each, Trouble):
            alert(channel, each.kind, each.title, each.text, now, each.severity)
    resolve_all(channel, {each.kind: each.note for each in found if isinstance(each, Fine)}, now)


def _outputs(channel: Channel, status: PlayoutStatus) -> Iterator[Trouble | Fine]:
    """Outputs that cannot be reached. The channel itself keeps running."""
    waiting = [each for each in status.outputs if each.error and each.type != "preview"]
    failing = [each for each in waiting if each.state != "sending"]
    if failing:
        names = {str(output.pk): str(output) for output in channel.outputs.all()}
        text = "\n".join(f"{names.get(each.key, each.type)}: {each.error}" for each in failing)
        yield Trouble("output", f"{channel}: an output is not sending", text, Severity.WARNING)
    elif not waiting:
        yield Fine("output", "all outputs are sending")


def _program(channel: Channel, status: PlayoutStatus) -> Iterator[Trouble | Fine]:
    """It shows its slate, skips its list, drops frames, or its media worker is stuck (P-09)."""
    if status.bars_seconds >= BARS_SECONDS:
        item = status.item.title if status.item else ""
        what = f"{item} gives no picture." if item else "No item of the list can be played, or nothing is planned."
        text = f"{what} {status.error} The as-run log says which items were skipped, and why."
        yield Trouble("bars", f"{channel} shows its slate", text)
    elif status.state != "slate":
        yield Fine("bars", "there is a picture again")
    if status.list_failed_seconds >= BARS_SECONDS:
        text = f"The filler is on air. {status.error} The as-run log says which items were skipped, and why."
        yield Trouble("list_failed", f"{channel}: no item of its list can be played", text)
    else:
        yield Fine("list_failed", "the list plays")
    if status.dropping_seconds >= BARS_SECONDS:
        text = f"{status.dropped} frames were dropped so far: the load on its machine is too high."
        yield Trouble("dropping", f"{channel} drops frames: its encoder cannot keep up", text)
    else:
        yield Fine("dropping", "the encoder keeps up")
    if status.loop_age_seconds > HUNG_LOOP_SECONDS:
        text = (
            "It plays on, but opens no new items. The usual cause is storage that does not answer. "
            "Airlock does not move it."
        )
        yield Trouble("stuck", f"{channel}: its media worker is stuck", text)
    else:
        yield Fine("stuck", "the media worker continues")


def _returned(channel: Channel, status: PlayoutStatus) -> Iterator[Trouble | Fine]:
    """What the receiver of the monitored output sees and hears. A pause and the slate stand still on purpose."""
    heard = status.returned or ReturnStatus()
    is_still = status.state in {"paused", "slate"}
    frozen = 0.0 if is_still or heard.black_seconds else heard.frozen_seconds
    silent = 0.0 if is_still else heard.silent_seconds
    for kind, found, limit, what in (
        ("return_lost", heard.lost_seconds, settings.RETURN_LOST_SECONDS, "the monitored output does not arrive"),
        ("black", heard.black_seconds, settings.RETURN_BLACK_SECONDS, "the output is black"),
        ("freeze", frozen, settings.RETURN_FREEZE_SECONDS, "the picture of the output is frozen"),
        ("silence", silent, settings.RETURN_SILENT_SECONDS, "the output is silent"),
    ):
        if found >= limit:
            text = f"Measured on the monitored output. {heard.error}".strip()
            yield Trouble(kind, f"{channel}: {what}", text)
        elif not found:
            yield Fine(kind, "the monitored output is in order")
    yield from _loudness(channel, heard.loudness_lufs)


def _loudness(channel: Channel, heard: float | None) -> Iterator[Trouble | Fine]:
    """The mean of the last half minute against the channel's target."""
    target = channel.loudness_lufs
    if heard is None or target is None or abs(heard - target) < settings.RETURN_LOUDNESS_LU:
        yield Fine("loudness", "the loudness is near its target, or is not known")
        return
    text = f"The last half minute of the monitored output has {heard:.1f} LUFS; the channel's target is {target:.1f}."
    title = f"{channel}: the output is too {'loud' if heard > target else 'quiet'}"
    yield Trouble("loudness", title, text, Severity.WARNING)
