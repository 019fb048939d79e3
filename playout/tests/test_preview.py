"""The preview of a channel for users with permission: HLS and one JPEG per second at live/<channel>/ (P-02)."""

import hashlib
import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from nodes import workloads
from playout.channels import controls
from playout.models import Channel
from station.models import Project
from testing.channels import make_channel
from testing.media import decode
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.paced]

WATCHED_SECONDS = 8.0


@pytest.fixture
def on_air(process_node: Any, project: Any, settings: Any) -> Any:
    settings.WORKER_PREVIEW = True
    settings.MANUAL_WAIT_SECONDS = 40
    channel = make_channel(project, settings.RECORDINGS_DIR, clips=1)
    outcome = controls.start(channel, by="anna")
    assert outcome.is_good, outcome.text
    yield channel
    controls.stop(channel, by="anna")


def as_person(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def content_of(client: Client, channel: Channel, name: str) -> bytes:
    """The body of the response; empty if it is not 200."""
    answer = client.get(f"/media/live/{channel.pk}/{name}")
    return b"".join(answer) if answer.status_code == 200 else b""


def test_the_preview_playlist_advances_and_the_still_changes_every_second(
    on_air: Channel, make_member: Any, tmp_path: Path
) -> None:
    """P-02: seen by a viewer of the project; the segments decode."""
    viewer = as_person(make_member(on_air.project, "viewer"))
    wait_until(lambda: b".ts" in content_of(viewer, on_air, "index.m3u8"), 40, "a playlist with a segment")
    playlist = content_of(viewer, on_air, "index.m3u8").decode()
    assert playlist.startswith("#EXTM3U")
    segments = [line for line in playlist.splitlines() if not line.startswith("#")]
    whole = tmp_path / "segment.ts"
    whole.write_bytes(content_of(viewer, on_air, segments[-1]))
    assert decode(whole) >= 25, "at least half of a segment of two seconds"

    stills: dict[str, float] = {}
    began = time.monotonic()

    def is_watched_long_enough() -> bool:
        still = content_of(viewer, on_air, "frame.jpg")
        assert still.startswith(b"\xff\xd8"), "always a complete JPEG"
        assert still.endswith(b"\xff\xd9")
        stills.setdefault(hashlib.sha256(still).hexdigest(), time.monotonic())
        return time.monotonic() - began > WATCHED_SECONDS

    wait_until(lambda: content_of(viewer, on_air, "frame.jpg"), 20, "a still")
    began = time.monotonic()
    wait_until(is_watched_long_enough, 20, "some seconds of stills", pause=0.1)
    assert WATCHED_SECONDS / 2 <= len(stills) <= WATCHED_SECONDS + 2, sorted(stills.values())
    later = content_of(viewer, on_air, "index.m3u8").decode().splitlines()
    assert [line for line in later if line.endswith(".ts")][-1] not in segments, "the playlist has a new segment"


def test_the_preview_folder_is_named_after_the_channel_id(on_air: Channel, settings: Any) -> None:
    """P-02: on disk and in the configuration of the media worker."""
    folder = settings.RECORDINGS_DIR / "live" / str(on_air.pk)
    wait_until(
        lambda: (folder / "index.m3u8").exists() and (folder / "frame.jpg").exists(), 40, "playlist and still exist"
    )
    worker = workloads.latest(on_air.owner)
    assert worker is not None
    assert worker.spec["preview"] == f"live/{on_air.pk}"


def test_users_of_other_projects_cannot_see_the_preview(on_air: Channel, make_member: Any, admin_user: User) -> None:
    """P-02, S-01, A-09: 404 for every file; the same without a login, and for other files."""
    boss = as_person(admin_user)
    wait_until(lambda: b".ts" in content_of(boss, on_air, "index.m3u8"), 40, "the preview exists")
    playlist = content_of(boss, on_air, "index.m3u8").decode().splitlines()
    segment = next(line for line in playlist if line.endswith(".ts"))
    other = make_member(Project.objects.create(name="Sport", slug="sport"), "engineer")
    for client in (as_person(other), Client()):
        for name in ("index.m3u8", segment, "frame.jpg"):
            assert client.get(f"/media/live/{on_air.pk}/{name}").status_code == 404, name
    for name in ("secret.txt", "..%2f..%2fpids.json", "index.m3u8.tmp"):
        assert boss.get(f"/media/live/{on_air.pk}/{name}").status_code == 404, name
    assert boss.post(f"/media/live/{on_air.pk}/frame.jpg").status_code == 405
