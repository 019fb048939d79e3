"""Retention reads what is due, not the whole library (A-07)."""

import time
from collections import namedtuple
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from assets.library import retention
from assets.models import Asset, AssetPart, RetentionRule
from station.clock import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.database]

STORED, DUE = 4000, 3


@pytest.fixture
def library(project: Any, settings: Any) -> Any:
    """4,000 assets of the last ten days, 4,000 that were deleted long ago, and three that are a year old."""
    settings.ASSET_USERS = []
    settings.RECORDINGS_DIR.mkdir(parents=True, exist_ok=True)
    now = database_now()

    def made(number: int, age: timedelta, state: str = Asset.State.READY) -> Asset:
        return Asset(
            project=project, title=f"{state} {number}", origin="import", state=state, created_at=now - age,
            trashed_at=now if state == Asset.State.DELETED else None, files_gone_at=now, part_count=1,
        )  # fmt: skip

    assets = [made(number, timedelta(days=400), Asset.State.DELETED) for number in range(STORED)]
    assets += [made(number, timedelta(days=365, seconds=-number)) for number in range(DUE)]
    assets += [made(number, timedelta(days=10, minutes=-number)) for number in range(STORED)]
    Asset.objects.bulk_create(assets)
    AssetPart.objects.bulk_create(
        [AssetPart(asset=asset, number=1, path=f"{asset.pk}.ts", size_bytes=1000) for asset in assets]
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE assets_asset")
    return project


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of all assets that are read from the database."""
    seen: list[int] = []
    real = Asset.from_db.__func__

    def from_db(cls: type[Asset], *args: Any) -> Asset:
        asset = real(cls, *args)
        seen.append(asset.pk)
        return asset

    monkeypatch.setattr(Asset, "from_db", classmethod(from_db))
    return seen


@pytest.mark.parametrize("limit", [{"max_age_days": 30}, {"max_count": STORED}, {"min_free_percent": 10}])
def test_only_due_assets_are_read(library: Any, loaded: list[int], limit: dict[str, int], monkeypatch: Any) -> None:
    """A-07: by age, by number, by free disk. For free disk the oldest are read in steps until enough is found."""
    usage_of = namedtuple("usage", "total used free")
    monkeypatch.setattr(retention.shutil, "disk_usage", lambda path: usage_of(100_000, 92_500, 7_500))
    rule = RetentionRule.objects.create(project=library, **limit)
    began = time.monotonic()

    verdicts = retention.judge(rule, database_now())

    print(f"{limit}: {len(loaded)} assets read in {(time.monotonic() - began) * 1000:.0f} ms")
    assert [verdict.asset.title for verdict in verdicts] == ["ready 0", "ready 1", "ready 2"]
    assert all(verdict.goes_now for verdict in verdicts)
    assert len(loaded) <= 110


def test_the_search_by_age_can_use_its_index(library: Any) -> None:
    """A-07: deleted assets stay in the table and must not be passed over each hour. (A table this small is scanned.)"""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    old = Asset.objects.retained(library.pk).filter(created_at__lte=database_now() - timedelta(days=30))

    assert "asset_retained" in old.order_by("created_at", "id").explain()
