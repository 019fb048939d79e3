"""The live parts of a channel's page: the current item and the preview."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from assets.views.media import LIVE_NAME, TYPES
from nodes import workloads
from nodes.models import Workload
from nodes.workloads.media_worker_client import WorkerSilent, fetch_preview
from playout.asrun.collection import today
from playout.models import Channel, Recovery
from station.badges import badge, state_badge
from station.clock import spoken
from station.rights import only_visible
from worker.wire.status import PlayoutStatus

STILL = "frame.jpg"
SHOWN_SECONDS = 3.0
WORDS = {"playing": "green", "paused": "amber", "filler": "blue", "slate": "amber"}


def visible_channel(request: HttpRequest, pk: int) -> Channel:
    """404 if the channel does not exist or the user may not see it."""
    rows = only_visible(Channel.objects.all(), request.user, "playout.view_channel")
    return get_object_or_404(rows, pk=pk)


@never_cache
@require_safe
def channel_now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment that the channel's page asks for every two seconds."""
    return render(request, "playout/channel_now.html", now_context(visible_channel(request, pk)))


@never_cache
@require_safe
def channel_live(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """P-02: the preview stream and the still, with the same permission check."""
    channel = visible_channel(request, pk)
    workload = workloads.latest(channel.owner)
    if not LIVE_NAME.match(name):
        raise Http404("There is no such file.")
    content = _fetch(workload, name) if workload is not None and not workload.is_over else None
    if content is None and name == STILL:
        return HttpResponse(status=204)  # polled every second: a missing picture is not an error
    if content is None:
        raise Http404("There is no preview.")
    return HttpResponse(content, content_type=TYPES[Path(name).suffix])


def _fetch(workload: Workload, name: str) -> bytes | None:
    try:
        reply = fetch_preview(workload, name)
    except WorkerSilent:
        return None
    return reply.body if reply.status == 200 else None


def now_context(channel: Channel) -> dict[str, Any]:
    workload = workloads.latest(channel.owner)
    is_up = workload is not None and not workload.is_over and bool(workload.progress)
    status = workload.status(PlayoutStatus) if workload is not None and is_up else None
    item = status.item if status else None
    state = status.state if status else ""
    return {
        "channel": channel,
        "badge": state_badge(channel),
        "worker_badge": badge(state, WORDS.get(state, "grey")) if state else "",
        "workload": workload,
        "is_up": is_up,
        "item": item,
        "item_left": _left(status),
        "next": status.next if status else None,
        "outputs": _outputs(channel, status),
        "returned": _returned(status),
        "entries": today(channel, timezone.now(), 8),
        "last_recovery": Recovery.objects.filter(channel=channel).select_related("from_node", "to_node").first(),
    }


def _left(status: PlayoutStatus | None) -> str:
    """The time left of the item on air, counted from the last report."""
    item = status.item if status else None
    if status is None or item is None or item.seconds is None:
        return ""
    since = timezone.now() - status.place.at if status.place else timedelta()
    passed = 0.0 if status.place and status.place.is_paused else since.total_seconds()
    return spoken(max(0.0, item.seconds - item.offset_seconds - passed))


def _outputs(channel: Channel, status: PlayoutStatus | None) -> list[dict[str, Any]]:
    known = {each.key: each for each in status.outputs} if status else {}
    rows = []
    for output in channel.outputs.all():
        reported = known.get(str(output.pk))
        if not output.is_active and not reported:
            continue
        word = reported.state if reported else "off"
        is_listening = reported is not None and reported.receivers is not None and not reported.error
        waiting = "blue" if is_listening else "red"
        colour = {"sending": "green", "waiting": waiting, "starting": "blue"}.get(word, "grey")
        name = str(output)
        if reported and reported.receivers is not None:
            name += f" ({reported.receivers} connected)"
        rows.append({"name": name, "badge": badge(word, colour), "error": reported.error if reported else ""})
    return rows


def _returned(status: PlayoutStatus | None) -> dict[str, Any] | None:
    """What the monitored output looks and sounds like at its receiver."""
    heard = status.returned if status else None
    if heard is None:
        return None
    troubles = {"lost": heard.lost_seconds, "black": heard.black_seconds}
    troubles |= {"still picture": heard.frozen_seconds, "silent": heard.silent_seconds}
    words = [badge(word, "red") for word, seconds in troubles.items() if seconds >= SHOWN_SECONDS]
    return {"badges": words or [badge("in order", "green")], "loudness": heard.loudness_lufs, "error": heard.error}
