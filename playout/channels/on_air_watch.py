"""Raises alerts about a channel that is on air but has a failing output or no worthwhile picture.

Frames go out, so nothing is restarted or moved here.
"""

from datetime import datetime

from nodes.models import Workload
from nodes.workloads.poll import HUNG_LOOP_SECONDS
from playout.channels.channel_alerts import alert, resolve
from playout.models import Channel
from station.models.alert import Severity
from worker.wire.status import PlayoutStatus

# A state that lasts this long raises an alert.
BARS_SECONDS = 20.0


def watch_outputs(channel: Channel, workload: Workload, now: datetime) -> None:
    """Alert about outputs that cannot be reached. The channel itself keeps running."""
    waiting = [each for each in workload.status(PlayoutStatus).outputs if each.error and each.type != "preview"]
    failing = [each for each in waiting if each.state != "sending"]
    if failing:
        names = {str(output.pk): str(output) for output in channel.outputs.all()}
        text = "\n".join(f"{names.get(each.key, each.type)}: {each.error}" for each in failing)
        alert(channel, "output", f"{channel}: an output is not sending", text, now, Severity.WARNING)
    elif not waiting:
        resolve(channel, "output", now, "all outputs are sending")


def watch_program(channel: Channel, workload: Workload, now: datetime) -> None:
    """Alert about a channel that shows its slate, skips its list, drops frames or has a stuck media worker (P-09)."""
    status = workload.status(PlayoutStatus)
    if status.bars_seconds >= BARS_SECONDS:
        item = status.item.title if status.item else ""
        what = f"{item} gives no picture." if item else "No item of the list can be played, or nothing is planned."
        text = f"{what} {status.error} The as-run log says which items were skipped, and why."
        alert(channel, "bars", f"{channel} shows its slate", text, now)
    elif status.state != "slate":
        resolve(channel, "bars", now, "there is a picture again")
    if status.list_failed_seconds >= BARS_SECONDS:
        text = f"The filler is on air. {status.error} The as-run log says which items were skipped, and why."
        alert(channel, "list_failed", f"{channel}: no item of its list can be played", text, now)
    else:
        resolve(channel, "list_failed", now, "the list plays")
    if status.dropping_seconds >= BARS_SECONDS:
        text = f"{status.dropped} frames were dropped so far: the load on its machine is too high."
        alert(channel, "dropping", f"{channel} drops frames: its encoder cannot keep up", text, now)
    else:
        resolve(channel, "dropping", now, "the encoder keeps up")
    if status.loop_age_seconds > HUNG_LOOP_SECONDS:
        text = (
            "It plays on, but opens no new items. The usual cause is storage that does not answer. "
            "Airlock does not move it."
        )
        alert(channel, "stuck", f"{channel}: its media worker is stuck", text, now)
    else:
        resolve(channel, "stuck", now, "the media worker continues")
