"""Fixtures of the library tests."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from assets.models import Asset
from scheduling.models import Booking
from station.clock import database_now
from station.models import Project
from testing.library import make_asset, make_clip
from testing.mam import Mam, running_mam


@pytest.fixture
def media(settings: Any) -> Path:
    """The library's folder."""
    folder: Path = settings.RECORDINGS_DIR
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def stored_clip(tmp_path_factory: Any) -> Path:
    """A clip of two seconds, made once per session."""
    return make_clip(tmp_path_factory.mktemp("clips") / "clip.ts", 2)


@pytest.fixture
def clip(media: Path, stored_clip: Path) -> Path:
    path = media / "take" / "clip.ts"
    path.parent.mkdir()
    path.write_bytes(stored_clip.read_bytes())
    return path


@pytest.fixture
def asset(settings: Any, project: Any, clip: Path) -> Any:
    """A clip of two seconds that is waiting for processing."""
    return make_asset(settings, project, clip)


@pytest.fixture
def ready(asset: Any) -> Any:
    """The same asset, ready according to the tables."""

    Asset.objects.filter(pk=asset.pk).update(state=Asset.State.READY, duration_seconds=2.0, sha256="ab" * 32)
    asset.refresh_from_db()
    return asset


@pytest.fixture
def mam(settings: Any) -> Iterator[Mam]:
    """A MAM on this machine that deliveries are allowed to reach."""
    settings.WEBHOOK_ALLOWED_NETWORKS = ["127.0.0.0/8"]
    settings.DELIVERY_TIMEOUT_SECONDS = 20.0
    settings.DELIVERY_BACKOFF_SECONDS = 0.01
    with running_mam() as mam:
        yield mam


@pytest.fixture
def destination(project: Any, mam: Mam) -> Any:
    from assets.models import Destination

    destination = Destination(
        name="MAM",
        project=project,
        connector="http",
        config={"base_url": mam.url, "media": "upload", "fields": {"title": "name", "project": "metadata.desk"}},
    )
    destination.set_secret("token-of-the-mam")
    destination.full_clean()
    destination.save()
    return destination


@pytest.fixture
def incoming(settings: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "incoming"
    folder.mkdir()
    settings.IMPORT_ROOTS = [str(folder)]
    return folder


@pytest.fixture
def file(incoming: Path, stored_clip: Path) -> Path:
    path = incoming / "Evening news, part 1.ts"
    path.write_bytes(stored_clip.read_bytes())
    return path


@pytest.fixture
def operator(client: Client, project: Project, make_member: Any) -> Client:
    client.force_login(make_member(project, "operator"))
    return client


@pytest.fixture
def engineer(project: Project, make_member: Any) -> Client:
    client = Client()
    client.force_login(make_member(project, "engineer"))
    return client


@pytest.fixture
def stranger(make_member: Any) -> Client:
    client = Client()
    client.force_login(make_member(Project.objects.create(name="Sport", slug="sport"), "engineer"))
    return client


def part(number: int, first: datetime, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "file": f"take-{number:03d}.ts",
        "first_frame_at": first.isoformat(),
        "last_frame_at": (first + timedelta(seconds=seconds)).isoformat(),
        "frames": round(seconds * 25),
        "bytes": round(seconds * 1000),
        "seconds": seconds,
        "end_reason": "",
        **more,
    }


@pytest.fixture
def booking(project: Any) -> Booking:
    """A booking of one minute that started 40 seconds ago and is recording."""
    from nodes.models import Node
    from scheduling.models import Recorder

    now = database_now()
    node = Node.objects.create(name="n", address="process", media_dir="/srv/media")
    recorder = Recorder.objects.create(name="Studio A", project=project, source_type="test", node=node)
    opens = now - timedelta(seconds=40)
    return Booking.objects.create(
        recorder=recorder,
        state=Booking.State.RECORDING,
        starts_at=opens,
        ends_at=opens + timedelta(minutes=1),
        opens_at=opens,
        closes_at=opens + timedelta(minutes=1),
        folder="news/studio-a",
        file_name="take",
        parts=[part(1, opens, 39, node=node.pk)],
        size_bytes=39000,
        frames=975,
    )


State = Asset.State


@pytest.fixture
def old(settings: Any, project: Any, media: Path) -> list[Asset]:
    """Ten assets, one per day; the first is ten days old."""
    now, made = database_now(), []
    for number in range(10):
        path = media / "take" / f"{number}.ts"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 1000)
        when = now - timedelta(days=10 - number)
        asset = make_asset(
            settings, project, path, state=State.READY, created_at=when, title=f"Day {number}", size_bytes=1000
        )
        made.append(asset)
    return made
