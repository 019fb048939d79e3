"""What the library's tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
    """Two seconds, made once."""
    return make_clip(tmp_path_factory.mktemp("clips") / "clip.ts", 2)


@pytest.fixture
def clip(media: Path, stored_clip: Path) -> Path:
    path = media / "take" / "clip.ts"
    path.parent.mkdir()
    path.write_bytes(stored_clip.read_bytes())
    return path


@pytest.fixture
def asset(settings: Any, project: Any, clip: Path) -> Any:
    """A clip of two seconds that waits to be processed."""
    return make_asset(settings, project, clip)


@pytest.fixture
def ready(asset: Any) -> Any:
    """The same, processed as far as the tables know."""
    from assets.models import Asset

    Asset.objects.filter(pk=asset.pk).update(state=Asset.State.READY, duration_seconds=2.0, sha256="ab" * 32)
    asset.refresh_from_db()
    return asset


@pytest.fixture
def mam(settings: Any) -> Iterator[Mam]:
    """A MAM on this machine, which deliveries may reach."""
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
