"""The library's HTTP API: search assets and read their data."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from assets.models import Asset
from station.api_support import MOST_ROWS, one, visible

router = Router(tags=["assets"])


class AssetOut(Schema):
    id: int
    title: str
    state: str
    origin: str
    created_at: datetime
    duration_seconds: float | None
    size_bytes: int
    completeness_percent: float | None
    is_usable: bool
    sha256: str
    loudness_lufs: float | None


class AssetDetail(AssetOut):
    technical: dict[str, Any]
    gaps: list[dict[str, Any]]
    findings: list[dict[str, Any]]


class AssetQuery(Schema):
    search: str = ""
    state: str | None = None
    limit: int = Field(50, ge=1, le=MOST_ROWS)
    offset: int = Field(0, ge=0)


@router.get("/", response=list[AssetOut])
def list_assets(request: HttpRequest, wanted: Query[AssetQuery]) -> Any:
    """Newest first. Assets that are deleted or in the trash are left out."""
    rows = visible(Asset.objects.there(), request)
    rows = rows.filter(title__icontains=wanted.search) if wanted.search else rows
    rows = rows.filter(state=wanted.state) if wanted.state else rows
    return list(rows[wanted.offset : wanted.offset + wanted.limit])


@router.get("/{pk}", response=AssetDetail)
def get_asset(request: HttpRequest, pk: int) -> Any:
    return one(Asset.objects.there(), request, pk)
