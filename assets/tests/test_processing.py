"""Processing: every step is a run and takes effect once; the asset is ready when all steps are over (A-05)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assets.files import locations
from assets.models import Asset, AssetPart, AssetStep
from assets.processing import steps
from jobs.models import Run
from jobs.runs.finishing import Failure
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from station.models.alert import Severity
from testing.fleet import HandWorker, later, work_off
from testing.library import make_asset, make_clip, make_tone, make_troubled
from testing.media import decode

pytestmark = pytest.mark.django_db

Kind, State = AssetStep.Kind, Asset.State
STEPS = [steps.job_of(kind) for kind in Kind]


def process(asset: Asset) -> list[tuple[str, Any]]:
    steps.order(asset, steps.FIRST, now=database_now(), by="test")
    done = work_off(*STEPS)
    asset.refresh_from_db()
    return done


def test_a_clip_goes_through_every_step_and_is_ready(asset: Asset, clip: Path) -> None:
    """A-05: probe, poster and filmstrip, proxy, loudness, report, checksum."""
    process(asset)
    assert asset.state == State.READY
    assert {step.kind for step in asset.steps.all() if step.done_at} == set(Kind)
    assert asset.duration_seconds == pytest.approx(2, abs=0.1)
    assert asset.video_format == "320x180p25"
    assert asset.loudness_lufs == pytest.approx(-23, abs=0.4)
    assert len(asset.sha256) == 64
    assert asset.parts.get().sha256 == asset.sha256
    folder = locations.products_dir(asset.pk)
    assert sorted(path.name for path in folder.iterdir()) == ["filmstrip.jpg", "poster.jpg", "proxy.mp4"]


def test_the_proxy_can_be_played_while_it_loads(asset: Asset) -> None:
    """A-05: H.264 and AAC in MP4, with the index at the start."""
    process(asset)
    proxy = locations.products_dir(asset.pk) / locations.PROXY
    assert decode(proxy) == pytest.approx(50, abs=2)
    head = proxy.read_bytes()[:4096]
    assert head.find(b"moov") != -1
    assert b"mdat" not in head[: head.find(b"moov")]


def test_poster_and_filmstrip_have_the_right_sizes(asset: Asset) -> None:
    process(asset)
    import subprocess

    from assets.files.probing import parse
    from testing.media import environment, ffmpeg

    sizes = {}
    for name in (locations.POSTER, locations.FILMSTRIP):
        path = locations.products_dir(asset.pk) / name
        said = subprocess.run(
            [ffmpeg(), "-hide_banner", "-i", str(path)], env=environment(), capture_output=True, text=True, check=False
        )
        found = parse(said.stderr.splitlines())
        sizes[name] = (found.pictures[0].width, found.pictures[0].height)
    assert sizes == {locations.POSTER: (640, 360), locations.FILMSTRIP: (4 * 160, 90)}


def test_an_asset_of_three_parts_is_processed_as_one(settings: Any, project: Any, media: Path) -> None:
    """A-05: also with parts of different picture sizes."""
    parts = [
        make_clip(media / "take" / f"{number}.ts", 2, size=size)
        for number, size in enumerate(("320x180", "640x360", "320x180"))
    ]
    asset = make_asset(settings, project, *parts, is_complete=False)
    process(asset)
    assert asset.state == State.PARTIAL
    assert asset.duration_seconds == pytest.approx(6, abs=0.3)
    assert decode(locations.products_dir(asset.pk) / locations.PROXY) == pytest.approx(150, abs=3)
    assert len({part.sha256 for part in asset.parts.all()} | {asset.sha256}) >= 3


def test_an_asset_without_a_picture_gets_no_poster_or_filmstrip(settings: Any, project: Any, media: Path) -> None:
    asset = make_asset(settings, project, make_tone(media / "tone.wav", 4))
    process(asset)
    assert asset.state == State.READY
    assert not asset.steps.filter(kind=Kind.PICTURES).exists()
    assert locations.product(asset.pk, locations.PROXY) is not None


def test_a_very_short_clip_is_processed(settings: Any, project: Any, media: Path) -> None:
    asset = make_asset(settings, project, make_clip(media / "short.mp4", 0.2))
    process(asset)
    assert asset.state == State.READY, list(asset.steps.values_list("kind", "error"))


def test_findings_are_kept_with_the_asset(settings: Any, project: Any, media: Path) -> None:
    asset = make_asset(settings, project, make_troubled(media / "troubled.mp4"))
    process(asset)
    assert {"black", "silence", "freeze"} <= {found["kind"] for found in asset.findings}


def test_a_file_that_is_not_media_is_an_error_at_once(settings: Any, project: Any, media: Path) -> None:
    """A-05: a hopeless step is not retried, and an alert is raised."""
    path = media / "notes.ts"
    path.write_text("not a picture\n" * 100)
    asset = make_asset(settings, project, path)
    process(asset)
    from assets.library import live

    live.step(Term(), database_now())
    asset.refresh_from_db()
    assert asset.state == State.ERROR
    assert "not readable media" in asset.error
    run = Run.objects.get(job__name="assets.probe")
    assert (run.state, run.attempt, run.error_code) == (Run.State.FAILED, 1, Run.Fault.HOPELESS)
    assert Alert.objects.filter(key=f"processing:{asset.owner}", state="open").exists()


def test_a_missing_file_is_tried_again(asset: Asset, clip: Path) -> None:
    """A mount may come back."""
    hidden = clip.rename(clip.with_suffix(".away"))
    done = process(asset)
    assert all(isinstance(outcome, Failure) and outcome.code == Run.Fault.HANDLER_ERROR for _, outcome in done)
    assert "was not found on this machine" in done[0][1].text
    hidden.rename(clip)
    worker = HandWorker(*STEPS)
    for _ in range(12):
        claimed = worker.claim(now=later(3600))
        if not claimed:
            break
        worker.finish(claimed[0], worker.execute(claimed[0]))
    asset.refresh_from_db()
    assert asset.state == State.READY


def test_a_part_on_an_unavailable_machine_does_not_block_the_others(settings: Any, project: Any, media: Path) -> None:
    """R-21, A-05: it is tried for a while, then left out and reported; processing again includes it."""
    parts = [make_clip(media / "take" / f"{number}.ts", 2) for number in (1, 2)]
    asset = make_asset(settings, project, *parts)
    now = database_now()
    AssetPart.objects.filter(asset=asset).update(first_frame_at=now, last_frame_at=now, end_reason="stopped", frames=50)
    Asset.objects.filter(pk=asset.pk).update(wanted_from_at=now, wanted_until_at=now + timedelta(seconds=4))
    hidden = parts[0].rename(parts[0].with_suffix(".away"))
    process(asset)
    assert asset.state == State.PROCESSING, "it may come back"
    work_off_later(asset, 5)
    assert asset.state == State.PARTIAL
    assert "1.ts was not found" in asset.error
    assert asset.duration_seconds == pytest.approx(2, abs=0.3)
    assert [part.is_readable for part in asset.parts.order_by("number")] == [False, True]
    hidden.rename(parts[0])
    steps.again(asset, [Kind.PROBE], now=database_now(), by="anna")
    work_off_later(asset, 1)
    assert asset.duration_seconds == pytest.approx(4, abs=0.3)
    assert [part.frames for part in asset.parts.order_by("number")] == [50, 50]


def work_off_later(asset: Asset, rounds: int) -> None:
    """Repeat as a job worker would."""
    worker = HandWorker(*STEPS)
    for number in range(rounds * len(STEPS)):
        for claimed in worker.claim(now=later(3600 * (1 + number))):
            worker.finish(claimed, worker.execute(claimed))
    asset.refresh_from_db()


def test_a_failed_proxy_leaves_the_asset_usable(asset: Asset, monkeypatch: Any) -> None:
    from assets import declared_jobs
    from assets.files.sandboxed_ffmpeg import NotDecoded
    from assets.library import live
    from assets.processing import products

    def fail(*args: Any, **kwargs: Any) -> int:
        raise NotDecoded("the encoder has no licence")

    monkeypatch.setattr(products, "make_proxy", fail)
    assert declared_jobs.products is products
    process(asset)
    live.step(Term(), database_now())
    asset.refresh_from_db()
    assert asset.state == State.READY
    assert "no licence" in asset.steps.get(kind=Kind.PROXY).error
    assert Alert.objects.get(key=f"processing:{asset.owner}").severity == Severity.WARNING


def test_drafts_of_a_killed_job_worker_are_deleted(asset: Asset) -> None:
    folder = locations.products_dir(asset.pk) / ".proxy.mp4-abc123"
    folder.mkdir(parents=True)
    (folder / "proxy.mp4").write_bytes(b"half")
    process(asset)
    assert not folder.exists()
    assert asset.state == State.READY


def test_a_part_outside_the_media_folder_is_refused(asset: Asset, tmp_path: Path) -> None:
    """S-04"""
    (tmp_path / "secret.ts").write_bytes(b"x")
    part = asset.parts.get()
    part.path = "../secret.ts"
    with pytest.raises(locations.FileGone, match="is outside the media folder"):
        locations.path_of(part)


def test_an_unreadable_part_does_not_block_the_others(settings: Any, project: Any, media: Path) -> None:
    """A-05, R-15: a stub of a killed ffmpeg is left out and reported; the other parts are processed."""
    good = [make_clip(media / "take" / f"{number}.ts", 2) for number in (1, 3)]
    stub = media / "take" / "2.ts"
    stub.write_bytes(good[0].read_bytes()[:376])
    asset = make_asset(settings, project, good[0], stub, good[1], is_complete=False)
    process(asset)
    assert asset.state == State.PARTIAL
    assert asset.duration_seconds == pytest.approx(4, abs=0.2)
    assert "2.ts" in asset.error
    assert list(asset.parts.filter(is_readable=False).values_list("number", flat=True)) == [2]


def test_a_problem_of_the_machine_is_retried(asset: Asset, monkeypatch: Any) -> None:
    """A-05: for example a killed ffmpeg or a full disk."""
    from assets.files import probing, sandboxed_ffmpeg

    def die(*args: Any, **kwargs: Any) -> None:
        raise sandboxed_ffmpeg.NotNow("ffmpeg was killed by signal 9")

    monkeypatch.setattr(probing, "run_ffmpeg", die)
    steps.order(asset, [Kind.PROBE], now=database_now(), by="test")
    work_off(*STEPS)
    assert Run.objects.get(job__name="assets.probe").state == Run.State.RETRY


def test_the_library_leaves_room_for_recordings(asset: Asset, settings: Any) -> None:
    """R-18: proxies wait while the disk is nearly full."""
    settings.LIBRARY_FREE_MB = 10**9
    with pytest.raises(locations.NoRoom, match="reserved for recordings"):
        locations.check_room()
