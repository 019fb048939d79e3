"""Processing steps of an asset: which steps, in which order, and when the asset is ready.

Each step is a run that any job worker can claim (A-05). Its result is written once: in one transaction with the check
that the run still holds its lease. A run that is repeated after its result was written does nothing.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import F

from assets.delivery.lifecycle import offer
from assets.models import Asset, AssetStep
from jobs.definitions.run_context import RunContext, RunStopped
from jobs.models import Run
from jobs.runs.queue import enqueue
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.models.alert import Severity
from station.states import SCHEDULER, sql_list

logger = logging.getLogger(__name__)

State, Kind = Asset.State, AssetStep.Kind
FIRST = (Kind.PROBE, Kind.CHECKSUM)
# Which steps need video or audio; they are queued after the probe.
NEED_PICTURE = (Kind.PICTURES,)
NEED_SOUND = (Kind.LOUDNESS,)
NEED_EITHER = (Kind.PROXY, Kind.REPORT)


@dataclass(frozen=True)
class StepOrder:
    """The payload of a step's run."""

    asset_id: int


def job_of(kind: str) -> str:
    return f"assets.{kind}"


def order(asset: Asset, kinds: Iterable[str], *, now: datetime, by: str, priority: int = 0) -> int:
    """Queue these steps, also again. A step that is already queued or running is skipped. Returns how many."""
    count = 0
    for kind in kinds:
        with transaction.atomic():
            Asset.objects.select_for_update().get(pk=asset.pk)
            step = AssetStep.objects.filter(asset=asset, kind=kind).first()
            if step is not None and not step.is_over and _is_under_way(step):
                continue
            run = enqueue(
                job_of(kind),
                StepOrder(asset.pk),
                key=f"asset:{asset.pk}",
                owner=asset.owner,
                scope=f"project:{asset.project_id or 0}",
                project_id=asset.project_id,
                priority=priority,
                by=by,
            )
            if step is not None and step.is_over and step.run_ref == run.pk:
                continue  # the step was just done, but its run is not closed yet
            AssetStep.objects.update_or_create(
                asset=asset,
                kind=kind,
                defaults={
                    "run_ref": run.pk,
                    "asked_at": now,
                    "done_at": None,
                    "failed_at": None,
                    "error": "",
                    "times_done": 0,
                },
            )
            count += 1
    return count


def _is_under_way(step: AssetStep) -> bool:
    return Run.objects.live().filter(pk=step.run_ref or 0).exists()


def again(asset: Asset, kinds: Collection[str], *, now: datetime, by: str) -> int:
    """Repeat steps by hand. An asset in error is processed again; a ready asset stays ready meanwhile."""
    with transaction.atomic():
        if asset.state == State.ERROR and Kind.PROBE in kinds and asset.parts.exists():
            asset.move(State.PROCESSING, now=now, by=by, note="processed again", error="")
        return order(asset, kinds, now=now, by=by, priority=10)


def is_done_by(run: RunContext, asset_id: int, kind: str) -> bool:
    """True if this run already wrote its result before its job worker died."""
    return AssetStep.objects.filter(asset_id=asset_id, kind=kind, run_ref=run.id, done_at__isnull=False).exists()


def complete(run: RunContext, asset_id: int, kind: str, result: dict[str, Any], changes: dict[str, Any]) -> None:
    """Write the result of a step. Raises RunStopped if the run has lost its lease."""
    now = database_now()
    with transaction.atomic():
        asset = Asset.objects.select_for_update().get(pk=asset_id)
        mine = Run.objects.select_for_update().filter(pk=run.id, token=run.token, state=Run.State.RUNNING)
        if not mine.exists():
            raise RunStopped
        AssetStep.objects.filter(asset=asset, kind=kind).update(
            run_ref=run.id,
            done_at=now,
            failed_at=None,
            error="",
            result=result,
            times_done=F("times_done") + 1,
        )
        if changes:
            Asset.objects.filter(pk=asset.pk).update(**changes)
            asset.refresh_from_db()
        if kind == Kind.PROBE and asset.state == State.ERROR and asset.parts.exists():
            asset.move(State.PROCESSING, now=now, note="the files can be read now", error=asset.error)
        if kind == Kind.PROBE:
            order(asset, following(asset), now=now, by=SCHEDULER)
        settle(asset, now)


def following(asset: Asset) -> list[str]:
    """The steps after the probe, by what it found. Steps that were queued before are not repeated."""
    kinds: list[str] = []
    if asset.technical.get("pictures"):
        kinds += NEED_PICTURE
    if asset.technical.get("sounds"):
        kinds += NEED_SOUND
    kinds += NEED_EITHER
    known = set(asset.steps.values_list("kind", flat=True))
    return [kind for kind in kinds if kind not in known]


def fitting(asset: Asset, kinds: Iterable[str]) -> list[str]:
    """The steps that apply to this asset: no loudness without audio. Before the probe: only the first steps."""
    if not asset.technical:
        return [kind for kind in kinds if kind in FIRST] or list(FIRST)
    lacking: set[str] = set()
    if not asset.technical.get("pictures"):
        lacking |= set(NEED_PICTURE)
    if not asset.technical.get("sounds"):
        lacking |= set(NEED_SOUND)
    return [kind for kind in kinds if kind not in lacking]


UNSETTLED = f"""
    SELECT DISTINCT s.asset_id FROM assets_assetstep s LEFT JOIN jobs_run r ON r.id = s.run_ref
    WHERE s.done_at IS NULL AND s.failed_at IS NULL
    AND (r.id IS NULL OR r.state IN ({sql_list(Run.OVER)}))
    UNION SELECT a.id FROM assets_asset a WHERE a.state = '{State.PROCESSING}' AND NOT EXISTS (
        SELECT FROM assets_assetstep s WHERE s.asset_id = a.id AND s.done_at IS NULL AND s.failed_at IS NULL)
    LIMIT %s"""  # noqa: S608  (our own states)


def unsettled(count: int = 50) -> list[int]:
    """Assets with a step whose run ended without a result, or that are processing with no open step."""
    with connection.cursor() as cursor:
        cursor.execute(UNSETTLED, [count])
        return [row[0] for row in cursor.fetchall()]


def is_under_way() -> bool:
    return AssetStep.objects.filter(done_at=None, failed_at=None).exists()


def sweep(asset_id: int, now: datetime) -> None:
    """End steps whose run failed finally or is gone, and settle the asset."""
    with transaction.atomic():
        # The leader must not wait for a locked row.
        asset = Asset.objects.select_for_update(skip_locked=True).filter(pk=asset_id).first()
        if asset is None:
            return
        for step in asset.steps.filter(done_at=None, failed_at=None):
            run = Run.objects.filter(pk=step.run_ref or 0).first()
            if run is not None and not run.is_over:
                continue
            if run is not None and run.state == Run.State.SUCCEEDED:
                error = "the run ended without a result"
            else:
                error = (run.error or run.error_code) if run else "the run is gone"
            step.failed_at, step.error = now, error
            step.save(update_fields=["failed_at", "error"])
            logger.error("A processing step failed. asset=%s step=%s error=%s", asset.pk, step.kind, error)
        settle(asset, now)


def settle(asset: Asset, now: datetime) -> None:
    """When every step is over, the asset becomes ready, partial, or error if it cannot be read at all."""
    steps = list(asset.steps.all())
    if not all(step.is_over for step in steps):
        return
    failed = [step for step in steps if step.failed_at]
    _tell(asset, failed, now)
    probe = next((step for step in steps if step.kind == Kind.PROBE), None)
    if asset.state == State.PARTIAL and asset.is_complete and probe is not None and not probe.failed_at:
        asset.move(State.PROCESSING, now=now, note="missing parts are available now")
    if asset.state == State.READY and not asset.is_complete and probe is not None and not probe.failed_at:
        asset.move(State.PROCESSING, now=now, note="some parts are missing now")
    if asset.state != State.PROCESSING:
        return
    if probe is None or probe.failed_at:
        asset.move(
            State.ERROR, now=now, note="the files cannot be read", error=probe.error if probe else "never probed"
        )
        return
    to = State.READY if asset.is_complete else State.PARTIAL
    words = f"without {', '.join(str(step) for step in failed)}" if failed else "processed"
    if asset.move(to, now=now, note=words):
        offer(asset, now=now)


def _tell(asset: Asset, failed: list[AssetStep], now: datetime) -> None:
    key = f"processing:{asset.owner}"
    if not failed:
        resolve_alert(key, now=now, note="processed")
        return
    raise_alert(
        key,
        f"{asset}: {', '.join(str(step) for step in failed)} failed",
        now=now,
        severity=Severity.CRITICAL if any(step.kind == Kind.PROBE for step in failed) else Severity.WARNING,
        text="\n".join(f"{step}: {step.error.partition(chr(10))[0]}" for step in failed),
        subject=asset.owner,
        project=asset.project,
    )
