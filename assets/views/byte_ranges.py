"""Sends files to browsers and players, whole or in byte ranges, directly or through the web server."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import http_date, parse_http_date_safe

BLOCK_BYTES = 256 * 1024
_RANGE = re.compile(r"^bytes=([0-9]{0,18})-([0-9]{0,18})$")


def send(request: HttpRequest, path: Path, content_type: str, *, download_as: str = "") -> HttpResponseBase:
    """A-09: send the file, or the requested range. The caller checks the permission."""
    found = path.stat()
    etag = f'"{found.st_size:x}-{found.st_mtime_ns:x}"'
    response = _accelerated(path) or _sent_by_us(request, path, found, etag)
    if response.status_code != 416:
        response.headers["Content-Type"] = content_type
    response.headers["Accept-Ranges"] = "bytes"
    response.headers["ETag"] = etag
    response.headers["Last-Modified"] = http_date(found.st_mtime)
    response.headers["Cache-Control"] = "private, no-cache"
    if download_as:
        response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(download_as)}"
    return response


def _accelerated(path: Path) -> HttpResponse | None:
    """Behind nginx: name the file, and nginx sends it, ranges included."""
    if not settings.MEDIA_ACCEL_PREFIX:
        return None
    root = Path(settings.RECORDINGS_DIR).resolve()
    if not path.is_relative_to(root):
        return None
    target = settings.MEDIA_ACCEL_PREFIX.rstrip("/") + "/" + quote(str(path.relative_to(root)))
    return HttpResponse(headers={"X-Accel-Redirect": target})


def _sent_by_us(request: HttpRequest, path: Path, found: os.stat_result, etag: str) -> HttpResponseBase:
    if request.headers.get("If-None-Match") == etag:
        return HttpResponse(status=304)
    wanted = request.headers.get("Range", "")
    # RFC 9110: an unsupported Range header is ignored. Several ranges at once are not supported.
    if not _RANGE.match(wanted.strip()) or not _is_same(request, found, etag):
        whole = FileResponse(path.open("rb"))
        whole.headers["Content-Length"] = str(found.st_size)
        return whole
    span = parse_range(wanted, found.st_size)
    if span is None:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{found.st_size}"})
    first, last = span
    headers = {"Content-Range": f"bytes {first}-{last}/{found.st_size}", "Content-Length": str(last - first + 1)}
    return StreamingHttpResponse(read_span(path, first, last), status=206, headers=headers)


def _is_same(request: HttpRequest, found: os.stat_result, etag: str) -> bool:
    """If-Range: send the whole file if the requested range is of another version."""
    condition = request.headers.get("If-Range")
    if not condition:
        return True
    if condition.startswith('"'):
        return condition == etag
    return parse_http_date_safe(condition) == int(found.st_mtime)


def parse_range(text: str, size: int) -> tuple[int, int] | None:
    """First and last byte, or None if it cannot be satisfied."""
    matched = _RANGE.match(text.strip())
    if matched is None or not any(matched.groups()):
        return None
    first, last = matched.groups()
    if not first:  # a suffix range: the last bytes
        count = int(last)
        return (max(0, size - count), size - 1) if count and size else None
    start, end = int(first), min(int(last), size - 1) if last else size - 1
    return (start, end) if start <= end else None


def read_span(path: Path, first: int, last: int) -> Iterator[bytes]:
    with path.open("rb") as handle:
        handle.seek(first)
        left = last - first + 1
        while left > 0 and (block := handle.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            yield block
