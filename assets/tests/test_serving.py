"""Media over HTTP: by permission, in ranges, by link; 404 for everyone else (A-09)."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.test import Client

from assets.files import locations
from assets.models import Asset
from assets.views import byte_ranges
from assets.views.media import SALT, link_to
from station.clock import database_now

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
PROXY = bytes(range(256)) * 40


@pytest.fixture
def served(ready: Asset) -> Asset:
    folder = locations.products_dir(ready.pk)
    folder.mkdir(parents=True)
    (folder / "proxy.mp4").write_bytes(PROXY)
    (folder / "poster.jpg").write_bytes(b"\xff\xd8jpeg")
    (folder / "filmstrip.jpg").write_bytes(b"\xff\xd8strip")
    return ready


@pytest.fixture
def viewer(client: Client, project: Any, make_member: Any) -> Client:
    client.force_login(make_member(project, "viewer"))
    return client


@pytest.fixture
def stranger(make_member: Any, db: Any) -> Client:
    from station.models import Project

    client = Client()
    client.force_login(make_member(Project.objects.create(name="Sport", slug="sport"), "engineer"))
    return client


def body(response: Any) -> bytes:
    """Reads to the end, which closes the file."""
    return b"".join(response.streaming_content) if response.streaming else response.content


def status(client: Client, url: str, **headers: str) -> int:
    answer = client.get(url, headers=headers)
    body(answer)
    return answer.status_code


def urls(asset: Asset) -> list[str]:
    base = f"/media/assets/{asset.pk}"
    return [f"{base}/proxy.mp4", f"{base}/poster.jpg", f"{base}/filmstrip.jpg", f"{base}/original/1"]


def test_a_user_with_permission_gets_the_media(viewer: Client, served: Asset, clip: Path) -> None:
    """A-09"""
    answers = [viewer.get(url) for url in urls(served)]
    assert [answer.status_code for answer in answers] == [200] * 4
    contents = [body(answer) for answer in answers]
    assert contents[0] == PROXY
    assert contents[3] == clip.read_bytes()
    assert answers[0]["Content-Type"] == "video/mp4"
    assert answers[3]["Content-Disposition"].startswith("attachment")


def test_a_user_of_another_project_gets_404_for_everything(stranger: Client, served: Asset) -> None:
    """A-09, S-01: encoded, doubled-slash and dot-dot forms included."""
    base = f"/media/assets/{served.pk}"
    forms = [
        *urls(served),
        f"{base}//proxy.mp4",
        f"//media/assets/{served.pk}/proxy.mp4",
        f"/media//assets/{served.pk}/proxy.mp4",
        f"/media/assets/x/../{served.pk}/proxy.mp4",
        f"/media/assets/%2e%2e/assets/{served.pk}/proxy.mp4",
        f"{base}/%70roxy.mp4",
        f"{base}/proxy%2emp4",
        f"{base}/proxy.mp4%00.jpg",
        f"{base}/..%2f{served.pk}%2fproxy.mp4",
        f"{base}/../../../etc/passwd",
        f"{base}/original/%31",
        f"{base}/original/1/",
        f"/media/assets/{served.pk}%2fproxy.mp4",
        "/media/live/booking-1/index.m3u8",
        "/media/live/booking-1/..%2f..%2fproxy.mp4",
        "/media/link/x/proxy.mp4",
    ]
    for url in forms:
        for method in (stranger.get, stranger.head):
            assert method(url).status_code == 404, url


def test_paths_that_name_no_product_are_404_for_permitted_users_too(viewer: Client, served: Asset, clip: Path) -> None:
    """S-04: no file outside the media folders is ever sent."""
    base = f"/media/assets/{served.pk}"
    for url in [f"{base}/../../../etc/passwd", f"{base}/..%2f..%2ftake%2fclip.ts", f"{base}/.proxy.mp4-x", f"{base}/"]:
        assert status(viewer, url) == 404, url


def test_without_a_login_everything_is_404(client: Client, served: Asset) -> None:
    """A-09"""
    assert [status(client, url) for url in urls(served)] == [404] * 4


def test_media_urls_refuse_post(viewer: Client, served: Asset) -> None:
    """S-02"""
    assert [viewer.post(url).status_code for url in urls(served)] == [405] * 4


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=100-199", 100, 199),
        ("bytes=10000-", 10000, 10239),
        ("bytes=-40", 10200, 10239),
        ("bytes=5-999999", 5, 10239),
    ],
)
def test_a_range_request_gets_that_part_of_the_file(
    viewer: Client, served: Asset, asked: str, first: int, last: int
) -> None:
    """A-09: with status 206."""
    answer = viewer.get(urls(served)[0], headers={"Range": asked})
    assert answer.status_code == 206
    assert answer["Content-Range"] == f"bytes {first}-{last}/10240"
    assert answer["Content-Length"] == str(last - first + 1)
    assert body(answer) == PROXY[first : last + 1]


@pytest.mark.parametrize("asked", ["bytes=10240-", "bytes=20-10", "bytes=-0", "bytes=-"])
def test_an_unsatisfiable_range_is_416(viewer: Client, served: Asset, asked: str) -> None:
    """A-09"""
    answer = viewer.get(urls(served)[0], headers={"Range": asked})
    assert answer.status_code == 416
    assert answer["Content-Range"] == "bytes */10240"


@pytest.mark.parametrize(
    "asked", ["bytes=", "lines=1-2", "bytes=a-b", "bytes=0-1,5-6", "bytes=0-" + "9" * 5000, "bytes=²-"]
)
def test_an_unsupported_range_header_is_ignored(viewer: Client, served: Asset, asked: str) -> None:
    """A-09, RFC 9110: a request for several ranges, or in another unit, gets the whole file."""
    answer = viewer.get(urls(served)[0], headers={"Range": asked})
    assert answer.status_code == 200
    assert body(answer) == PROXY


def test_a_range_of_another_version_gets_the_whole_file(viewer: Client, served: Asset) -> None:
    answer = viewer.get(urls(served)[0], headers={"Range": "bytes=0-9", "If-Range": '"other"'})
    assert (answer.status_code, body(answer)) == (200, PROXY)
    same = viewer.get(urls(served)[0], headers={"Range": "bytes=0-9", "If-Range": answer["ETag"]})
    assert (same.status_code, body(same)) == (206, PROXY[:10])
    assert status(viewer, urls(served)[0], **{"If-None-Match": answer["ETag"]}) == 304


def test_behind_nginx_the_response_names_the_file(viewer: Client, served: Asset, settings: Any) -> None:
    """A-09: X-Accel-Redirect."""
    settings.MEDIA_ACCEL_PREFIX = "/protected/"
    answer = viewer.get(urls(served)[0])
    assert answer["X-Accel-Redirect"] == f"/protected/library/{served.pk}/proxy.mp4"
    assert not answer.content
    assert viewer.get(urls(served)[3])["X-Accel-Redirect"] == "/protected/take/clip.ts"


def test_a_link_works_without_a_login_until_it_expires(
    client: Client, served: Asset, settings: Any, monkeypatch: Any
) -> None:
    """A-09: expiring signed links for players."""
    link = link_to(served, "proxy.mp4")
    assert body(client.get(link)) == PROXY
    assert status(client, link.replace("proxy.mp4", "poster.jpg")) == 200
    assert status(client, link.replace("proxy.mp4", "original-1")) == 404, (
        "a link does not allow downloads of originals"
    )
    late = time.time() + (settings.MEDIA_LINK_HOURS + 1) * 3600
    monkeypatch.setattr(signing.time, "time", lambda: late)
    assert status(client, link) == 404


def test_a_link_cannot_be_forged(client: Client, served: Asset) -> None:
    """A-09: not for another asset, not with another signature; it ends when the asset goes to the trash."""
    link = link_to(served, "proxy.mp4")
    grant = link.split("/")[3]
    for bent in [grant[:-2] + "xx", "x" + grant, signing.dumps({"asset": served.pk}, salt="other"), "", "a:b:c"]:
        assert client.get(f"/media/link/{bent}/proxy.mp4").status_code == 404
    assert signing.loads(grant, salt=SALT) == {"asset": served.pk}
    Asset.objects.filter(pk=served.pk).update(trashed_at=database_now())
    assert status(client, link) == 404


def test_a_withdrawn_clip_is_not_shown_by_link(client: Client, served: Asset) -> None:
    """A-08"""
    link = link_to(served, "proxy.mp4")
    Asset.objects.filter(pk=served.pk).update(withdrawn_at=database_now())
    assert status(client, link) == 404


def test_a_live_playlist_needs_permission_for_the_booking(
    viewer: Client, stranger: Client, client: Client, served: Asset, monkeypatch: Any, project: Any
) -> None:
    """A-09: playlist and segments of a running recording."""
    from assets.views import media
    from nodes.models import Node, Workload
    from nodes.workloads.media_worker_client import Reply
    from scheduling.models import Booking, Recorder

    now = database_now()
    node = Node.objects.create(name="n", address="process", media_dir="/srv/media")
    recorder = Recorder.objects.create(name="Cam", project=project, source_type="test")
    window = {"starts_at": now, "opens_at": now, "ends_at": now + HOUR, "closes_at": now + HOUR}
    booking = Booking.objects.create(recorder=recorder, state="recording", **window)
    Workload.objects.create(
        owner=booking.owner,
        generation=1,
        node=node,
        name="w",
        program="capture",
        control_port=9600,
        state="running",
        created_at=now,
    )
    Asset.objects.filter(pk=served.pk).update(booking=booking, state="live")
    served.refresh_from_db()
    monkeypatch.setattr(media, "fetch_preview", lambda workload, name: Reply(200, "x", name.encode()))
    for name in ("index.m3u8", "index12.ts", "frame.jpg"):
        url = f"/media/live/booking-{booking.pk}/{name}"
        assert viewer.get(url).content == name.encode()
        assert stranger.get(url).status_code == 404
        link = link_to(served, name)
        assert Client().get(link).content == name.encode()
    assert viewer.get(f"/media/live/booking-{booking.pk}/..%2fsecret").status_code == 404
    assert viewer.get(f"/media/live/booking-{booking.pk}/index.m3u8x").status_code == 404


def test_media_of_a_deleted_asset_is_404(viewer: Client, served: Asset) -> None:
    Asset.objects.filter(pk=served.pk).update(state=Asset.State.DELETED)
    assert [status(viewer, url) for url in urls(served)] == [404] * 4


def test_a_missing_file_is_404_not_500(viewer: Client, served: Asset, clip: Path) -> None:
    clip.unlink()
    assert viewer.get(urls(served)[3]).status_code == 404


def test_a_range_of_an_empty_file_is_ignored(tmp_path: Path) -> None:
    assert byte_ranges.parse_range("bytes=0-", 0) is None
    assert byte_ranges.parse_range("bytes=-5", 0) is None
