"""Serves media to users with permission: posters, proxies, originals, live playlists (A-09).

File names are fixed or numbers, so nothing that a browser sends becomes a path. Media without permission are 404, the
same as media that do not exist.
"""

import re
from datetime import datetime
from pathlib import Path
from urllib.parse import urljoin

from django.conf import settings
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from assets.files import locations
from assets.models import Asset
from assets.views import byte_ranges
from nodes import workloads
from nodes.workloads.media_worker_client import WorkerSilent, fetch_preview
from scheduling.models import Booking
from station.actions import Outcome, action, done
from station.rights import only_visible

TYPES = {
    ".jpg": "image/jpeg",
    ".mp4": "video/mp4",
    ".ts": "video/mp2t",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mov": "video/quicktime",
    ".mxf": "application/mxf",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
}
LIVE_NAME = re.compile(r"^(index\.m3u8|index\d{1,9}\.ts|frame\.jpg)$")
SALT = "assets.media"


def visible_asset(request: HttpRequest, pk: int) -> Asset:
    """The asset, or 404 if it does not exist, is deleted, or the user may not see it."""
    rows = only_visible(Asset.objects.all(), request.user, "assets.view_asset")
    asset = rows.exclude(state=Asset.State.DELETED).filter(pk=pk).first()
    if asset is None:
        raise Http404("There is no such asset.")
    return asset


@require_safe
def product(request: HttpRequest, pk: int, name: str) -> HttpResponseBase:
    """Poster, filmstrip or proxy."""
    return _send_product(request, visible_asset(request, pk), name)


@require_safe
def original(request: HttpRequest, pk: int, number: int) -> HttpResponseBase:
    """One original file of an asset, as a download."""
    return _send_original(request, visible_asset(request, pk), number)


@never_cache
@require_safe
def live(request: HttpRequest, pk: int, name: str) -> HttpResponseBase:
    """The video preview of a running recording: playlist and segments, each with the same permission check."""
    rows = only_visible(Booking.objects.all(), request.user, "scheduling.view_booking")
    booking = rows.filter(pk=pk).first()
    if booking is None:
        raise Http404("There is no such recording.")
    return _send_live(booking, name)


@never_cache
@require_safe
def linked(request: HttpRequest, grant: str, name: str) -> HttpResponseBase:
    """For players that cannot log in: the signed grant in the path names the asset and expires."""
    asset = _granted(grant)
    if LIVE_NAME.match(name):
        if asset.booking is None:
            raise Http404("The asset is not live.")
        return _send_live(asset.booking, name)
    return _send_product(request, asset, name)


def link_to(asset: Asset, name: str) -> str:
    """A link that works without a login until it expires. The segments of a playlist have the same base address."""
    grant = signing.dumps({"asset": asset.pk}, salt=SALT)
    return reverse("media-linked", args=[grant, name])


def _is_linkable(asset: Asset) -> bool:
    return asset.state != Asset.State.DELETED and not asset.is_trashed and not asset.withdrawn_at


@action(
    "link",
    "Link for a player",
    permission="assets.operate_asset",
    when=_is_linkable,
    otherwise=lambda asset: asset.condition_word,
)
def make_link(asset: Asset, *, now: datetime, by: str, base: str) -> Outcome:
    """The link is shown once and not logged: anyone who has it can watch."""
    name = "index.m3u8" if asset.state == Asset.State.LIVE else locations.PROXY
    text = f"{asset}: the link works for {settings.MEDIA_LINK_HOURS:g} hours."
    return done(text, shown_once=urljoin(base, link_to(asset, name)))


def _granted(grant: str) -> Asset:
    try:
        granted = signing.loads(grant, salt=SALT, max_age=settings.MEDIA_LINK_HOURS * 3600)
        pk = int(granted["asset"])
    except (signing.BadSignature, KeyError, TypeError, ValueError) as error:
        raise Http404("This link is invalid or has expired.") from error
    asset = Asset.objects.there().filter(pk=pk, withdrawn_at=None).first()
    if asset is None:
        raise Http404("There is no such asset.")
    return asset


def _send_product(request: HttpRequest, asset: Asset, name: str) -> HttpResponseBase:
    path = locations.product(asset.pk, name)
    if path is None:
        raise Http404("This file does not exist yet.")
    return byte_ranges.send(request, path, TYPES[path.suffix])


def _send_original(request: HttpRequest, asset: Asset, number: int) -> HttpResponseBase:
    part = asset.parts.select_related("node").filter(number=number).first()
    if part is None:
        raise Http404("There is no such part.")
    try:
        path = locations.path_of(part)
    except locations.FileGone as error:
        raise Http404(str(error)) from error
    kind = TYPES.get(path.suffix.lower(), "application/octet-stream")
    return byte_ranges.send(request, path, kind, download_as=Path(part.path).name)


def _send_live(booking: Booking, name: str) -> HttpResponseBase:
    if not LIVE_NAME.match(name):
        raise Http404("There is no such file.")
    workload = workloads.latest(booking.owner)
    if workload is None or workload.is_over:
        raise Http404("The recording is not live.")
    try:
        reply = fetch_preview(workload, name)
    except WorkerSilent as error:
        raise Http404("The media worker does not answer.") from error
    if reply.status != 200:
        raise Http404("There is no picture yet.")
    return HttpResponse(reply.body, content_type=TYPES[Path(name).suffix])
