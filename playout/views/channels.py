"""Small live pieces of the channel's page: what is on now, its picture."""

from datetime import datetime, timedelta
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

STILL = "frame.jpg"
WORDS = {"playing": "green", "paused": "amber", "filler": "blue", "slate": "amber"}


def visible_channel(request: HttpRequest, pk: int) -> Channel:
    """404 for what is not there and for what belongs to others, strangers included."""
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
    """P-02: the moving preview and the still, each asked for with the same right."""
    channel = visible_channel(request, pk)
    workload = workloads.latest(channel.owner)
    if not LIVE_NAME.match(name):
        raise Http404("There is no such file.")
    content = _fetch(workload, name) if workload is not None and not workload.is_over else None
    if content is None and name == STILL:
        return HttpResponse(status=204)  # asked for every second: no picture yet is not an error
    if content is None:
        raise Http404("There is no picture.")
    return HttpResponse(content, content_type=TYPES[Path(name).suffix])


def _fetch(workload: Workload, name: str) -> bytes | None:
    try:
        reply = fetch_preview(workload, name)
    except WorkerSilent:
        return None
    return reply.body if reply.status == 200 else None


def now_context(channel: Channel) -> dict[str, Any]:
    workload = workloads.latest(channel.owner)
    progress = workload.progress if workload and not workload.is_over else {}
    item, following = progress.get("item"), progress.get("next")
    state = str(progress.get("state", ""))
    return {
        "channel": channel,
        "badge": state_badge(channel),
        "worker_badge": badge(state, WORDS.get(state, "grey")) if state else "",
        "workload": workload,
        "is_up": bool(progress),
        "item": item,
        "item_left": _left(item, workload),
        "next": following,
        "outputs": _outputs(channel, progress),
        "entries": today(channel, timezone.now(), 8),
        "last_recovery": Recovery.objects.filter(channel=channel).select_related("from_node", "to_node").first(),
    }


def _left(item: dict[str, Any] | None, workload: Workload | None) -> str:
    """How long what is on still lasts, counted on from the last look."""
    if not item or item.get("seconds") is None or workload is None or workload.heartbeat_at is None:
        return ""
    place = workload.progress.get("place") or {}
    since = timezone.now() - datetime.fromisoformat(place["at"]) if place.get("at") else timedelta()
    passed = 0.0 if place.get("is_paused") else since.total_seconds()
    return spoken(max(0.0, item["seconds"] - item["offset_seconds"] - passed))


def _outputs(channel: Channel, progress: dict[str, Any]) -> list[dict[str, Any]]:
    known = {each["key"]: each for each in progress.get("outputs", [])}
    rows = []
    for output in channel.outputs.all():
        told = known.get(str(output.pk), {})
        if not output.is_active and not told:
            continue
        word = told.get("state", "off")
        colour = {"sending": "green", "waiting": "red", "starting": "blue"}.get(word, "grey")
        rows.append({"name": str(output), "badge": badge(word, colour), "error": told.get("error", "")})
    return rows
