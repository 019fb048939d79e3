"""The files of deleted assets (A-07)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assets.files import locations
from assets.library import retention
from assets.models import Asset
from assets.tests.test_retention import rule
from station.clock import database_now

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_users(settings: Any) -> None:
    settings.ASSET_USERS = []


State = Asset.State


def test_files_are_deleted_after_their_time_in_the_trash(project: Any, old: list[Asset]) -> None:
    """A-07: the row stays, with its history."""
    rule(project, max_count=9, trash_days=3)
    path = locations.path_of(old[0].parts.get())
    products = locations.products_dir(old[0].pk)
    products.mkdir(parents=True)
    (products / "poster.jpg").write_bytes(b"x")
    now = database_now()
    retention.apply(now)
    retention.apply(now + timedelta(days=2.9))
    assert path.exists()
    assert retention.apply(now + timedelta(days=3.1))["purged"] == 1
    assert not path.exists()
    assert not products.exists()
    asset = Asset.objects.get(pk=old[0].pk)
    assert asset.state == State.DELETED
    assert [event.note for event in asset.events.all()][-1] == "its time in the trash is over"


def test_a_file_outside_the_media_folder_is_never_deleted(project: Any, old: list[Asset], tmp_path: Path) -> None:
    """S-04: a path that leads out is not followed."""
    precious = tmp_path / "precious"
    precious.write_text("x")
    old[0].parts.update(path="../precious")
    retention.trash(old[0], reason="x", now=database_now(), by="anna", days=0)
    retention.apply(database_now() + timedelta(minutes=1))
    assert precious.exists()
    assert Asset.objects.get(pk=old[0].pk).state == State.DELETED


def test_after_a_crash_the_next_round_deletes_the_files_of_a_deleted_asset(project: Any, old: list[Asset]) -> None:
    """A-07."""
    path = locations.path_of(old[0].parts.get())
    Asset.objects.filter(pk=old[0].pk).update(state=State.DELETED, trashed_at=database_now())
    retention.apply(database_now())
    assert not path.exists()
    assert Asset.objects.get(pk=old[0].pk).files_gone_at is not None


def test_files_in_a_folder_that_is_not_mounted_do_not_count_as_deleted(
    project: Any, old: list[Asset], settings: Any, tmp_path: Path
) -> None:
    """A-07: they are deleted when the folder is back."""
    path = locations.path_of(old[0].parts.get())
    now = database_now()
    Asset.objects.filter(pk=old[0].pk).update(state=State.DELETED, trashed_at=now, state_since_at=now)
    away = tmp_path / "away"
    settings.RECORDINGS_DIR.rename(away)
    settings.RECORDINGS_DIR.mkdir()
    retention.apply(database_now())
    assert Asset.objects.get(pk=old[0].pk).files_gone_at is None
    (settings.RECORDINGS_DIR / "stray").touch()  # another file is in the mount point
    retention.apply(database_now())
    assert Asset.objects.get(pk=old[0].pk).files_gone_at is None
    (settings.RECORDINGS_DIR / "stray").unlink()
    settings.RECORDINGS_DIR.rmdir()
    away.rename(settings.RECORDINGS_DIR)
    retention.apply(database_now())
    assert not path.exists()
