"""Sends a channel's edited list, or the list of the next day, to its media worker."""

import logging
import time
from datetime import datetime

from nodes.models import Workload
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, tell
from playout.channels.channel_alerts import alert, resolve
from playout.lists.rundown import rundown_of
from playout.models import Channel
from station.leader_term import Term
from worker.wire.status import PlayoutStatus

logger = logging.getLogger(__name__)

# A channel on air is checked every second, its list less often. The pause grows with the time that reading the list
# takes, so that reading lists never takes more than a fiftieth of the time.
LIST_CHECK_SECONDS = 3.0
LIST_SHARE, LIST_LONGEST_SECONDS = 50, 30.0


class ListChecks:
    """The leader's memory of when each list is read again (monotonic, by workload)."""

    def __init__(self) -> None:
        self.due: dict[int, float] = {}


def pass_on_list(term: Term, channel: Channel, workload: Workload, now: datetime) -> None:
    """Send the list if the media worker has another version. The item on air stays on air."""
    began, due = time.monotonic(), term.memory(ListChecks).due
    if began < due.get(workload.pk, began):
        return
    for pk in [pk for pk, at in list(due.items()) if began - at > 60]:
        due.pop(pk, None)  # the media worker is gone
    known = workload.status(PlayoutStatus).rundown
    try:
        rundown = rundown_of(channel, now)
    finally:
        took = time.monotonic() - began
        due[workload.pk] = began + min(max(LIST_CHECK_SECONDS, LIST_SHARE * took), LIST_LONGEST_SECONDS)
    if known == rundown.version:
        resolve(channel, "list_refused", now, "the media worker has the current list")
    if not known or known == rundown.version:
        return
    try:
        tell(workload, rundown.command, PlayoutStatus)
        logger.info("A channel has a new list. channel=%s version=%s", channel.pk, rundown.version)
        resolve(channel, "list_refused", now, "the media worker accepted the list")
    except WorkerSilent as error:
        logger.warning("A list was not sent; it is tried again. channel=%s error=%s", channel.pk, error)
    except WorkerRefused as error:
        logger.error("A media worker refused a list. channel=%s error=%s", channel.pk, error)
        text = f"Its media worker refused the new list: {error}"
        alert(channel, "list_refused", f"{channel} plays an old list", text, now)
