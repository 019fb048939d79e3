"""Processing steps that are repeated, cancelled or lost (A-05)."""

import json
from pathlib import Path
from typing import Any

import pytest

from assets.files import locations
from assets.models import Asset, AssetStep
from assets.processing import steps
from assets.tests.test_processing import STEPS, process
from jobs.models import Run
from jobs.runs.finishing import Failure
from jobs.runs.queue import cancel
from station.clock import database_now
from station.leader_term import Term
from testing.fleet import HandWorker, work_off
from testing.library import make_asset, make_clip

pytestmark = pytest.mark.django_db

Kind, State = AssetStep.Kind, Asset.State


def test_each_step_can_be_done_again(asset: Asset) -> None:
    """A-05: the asset stays ready meanwhile, and the result is written again."""
    process(asset)
    (locations.products_dir(asset.pk) / locations.PROXY).unlink()
    assert steps.again(asset, [Kind.PROXY], now=database_now(), by="anna") == 1
    asset.refresh_from_db()
    assert asset.state == State.READY
    work_off(*STEPS)
    assert locations.product(asset.pk, locations.PROXY) is not None
    assert asset.steps.get(kind=Kind.PROXY).times_done == 1


def test_a_step_queued_twice_runs_once(asset: Asset) -> None:
    now = database_now()
    assert steps.order(asset, [Kind.CHECKSUM], now=now, by="a") == 1
    assert steps.order(asset, [Kind.CHECKSUM], now=now, by="b") == 0
    assert Run.objects.filter(job__name="assets.checksum").count() == 1


def test_a_result_written_before_a_crash_is_not_written_again(asset: Asset) -> None:
    """A-05: the job worker died between the result and the end of its run; the next attempt finds it done."""
    steps.order(asset, [Kind.CHECKSUM], now=database_now(), by="test")
    worker = HandWorker("assets.checksum")
    claimed = worker.claim()[0]
    worker.execute(claimed)  # it died before it could finish the run
    Run.objects.filter(pk=claimed.id).update(state=Run.State.QUEUED, token=None)
    second = worker.claim()[0]
    outcome = worker.execute(second)
    assert "already done when its job worker died" in json.dumps(outcome.result)
    assert asset.steps.get().times_done == 1


def test_a_job_worker_that_lost_the_run_cannot_write_its_result(asset: Asset) -> None:
    """A-05: a frozen job worker returns after another took over."""
    steps.order(asset, [Kind.CHECKSUM], now=database_now(), by="test")
    worker = HandWorker("assets.checksum")
    old = worker.claim()[0]
    Run.objects.filter(pk=old.id).update(state=Run.State.QUEUED, token=None)
    new = worker.claim()[0]
    outcome = worker.execute(old)
    assert isinstance(outcome, Failure)
    assert asset.steps.get().times_done == 0
    worker.finish(new, worker.execute(new))
    assert asset.steps.get().times_done == 1


def test_a_step_whose_run_was_cancelled_fails(asset: Asset) -> None:
    from assets.library import live

    steps.order(asset, [Kind.PROBE], now=database_now(), by="test")
    cancel(Run.objects.get(), by="anna")
    live.step(Term(), database_now())
    asset.refresh_from_db()
    assert asset.state == State.ERROR
    assert asset.steps.get().failed_at is not None
    steps.again(asset, [Kind.PROBE], now=database_now(), by="anna")
    asset.refresh_from_db()
    assert asset.state == State.PROCESSING


def test_an_asset_in_error_is_ready_after_a_successful_probe(asset: Asset) -> None:
    """For example after Retry on the run instead of Process again."""
    Asset.objects.filter(pk=asset.pk).update(state=State.ERROR, error="it was not there")
    asset.refresh_from_db()
    process(asset)
    assert asset.state == State.READY
    assert asset.error == ""


def test_a_ready_asset_stays_ready_when_a_repeated_probe_fails(asset: Asset, monkeypatch: Any) -> None:
    """A-05: for example because another job worker's ffmpeg is broken."""
    from assets.files import probing, sandboxed_ffmpeg

    process(asset)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise sandboxed_ffmpeg.NotDecoded("Invalid data found")

    monkeypatch.setattr(probing, "run_ffmpeg", refuse)
    assert steps.again(asset, [Kind.PROBE], now=database_now(), by="anna") == 1
    work_off(*STEPS)
    asset.refresh_from_db()
    assert asset.state == State.READY
    assert Run.objects.filter(job__name="assets.probe", state=Run.State.FAILED).count() == 1
    assert asset.parts.get().is_readable


def test_a_ready_asset_with_a_part_that_became_unreadable_is_partial(settings: Any, project: Any, media: Path) -> None:
    """A-05: "Process again" can also find that parts are missing."""
    good = [make_clip(media / "take" / f"{number}.ts", 2) for number in (1, 2)]
    asset = make_asset(settings, project, *good)
    process(asset)
    assert asset.state == State.READY
    Asset.objects.filter(pk=asset.pk).update(is_complete=False)
    asset.refresh_from_db()
    steps.settle(asset, database_now())
    assert asset.state == State.PARTIAL
