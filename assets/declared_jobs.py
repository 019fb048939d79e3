"""The library's jobs: processing steps, imports, watch folders, deliveries, retention."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from assets.delivery import attempt, lifecycle
from assets.files import checksums, probing
from assets.files.locations import FILMSTRIP, POSTER, PROXY, FileGone, media_of, path_of
from assets.files.sandboxed_ffmpeg import NotDecoded
from assets.intake import import_run, imports, watch_folders
from assets.library import gaps, retention
from assets.models import Asset, AssetPart, AssetStep
from assets.processing import measuring, products
from assets.processing.steps import FIRST, StepOrder, complete, is_done_by, job_of
from jobs.definitions.job_decorator import MINOR, every, job
from jobs.definitions.run_context import Hopeless, RunContext
from station.clock import database_now

Kind = AssetStep.Kind
Found = tuple[dict[str, Any], dict[str, Any]]
Work = Callable[[RunContext, Asset], Found]
HOUR = 3600.0
# End reasons of parts whose frame count was not reported.
INTERRUPTED = {"ffmpeg_died", "stalled", "worker_died", "disk_full"}
# A mount may be unavailable for an evening: a missing file is tried again for hours.
PATIENT = {"attempts": 10, "backoff_seconds": (10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)}
# An asset is usable without these steps, so they delay it by a few minutes at most; they can be repeated later.
BRIEF = {"attempts": 4, "backoff_seconds": (10.0, 60.0, 240.0)}
# After this many attempts, a missing part is left out if others are present.
WAITED_FOR = 3


def step(kind: AssetStep.Kind, title: str, timeout_seconds: float) -> Callable[[Work], Work]:
    """Declare a processing step. `work` returns its result and the asset's changed columns."""

    def declare(work: Work) -> Work:
        @job(
            job_of(kind),
            title=title,
            payload=StepOrder,
            isolation="process",
            timeout_seconds=timeout_seconds,
            **(PATIENT if kind in FIRST else BRIEF),
        )
        def handler(run: RunContext, order: StepOrder) -> dict[str, Any]:
            if is_done_by(run, order.asset_id, kind):
                return {"note": "The step was already done when its job worker died."}
            asset = Asset.objects.exclude(state=Asset.State.DELETED).filter(pk=order.asset_id).first()
            if asset is None:
                raise Hopeless("The asset was deleted.")
            try:
                result, changes = work(run, asset)
            except NotDecoded as error:
                raise Hopeless(str(error)) from error
            except FileGone as error:
                raise RuntimeError(str(error)) from error  # the mount may come back: try again
            complete(run, asset.pk, kind, result, changes)
            return result

        return work

    return declare


def progress(run: RunContext, asset: Asset, what: str) -> Callable[[float], None]:
    """Reports seconds of media as a percentage of the asset's length."""
    total = asset.duration_seconds or 0.0

    def tell(seconds: float) -> None:
        run.report(min(99.0, 100 * seconds / total) if total else None, what)

    return tell


@step(Kind.PROBE, "Read the technical data of the files", 6 * HOUR)
def probe(run: RunContext, asset: Asset) -> Found:
    """Probe every part. Unreadable parts are left out and reported; the step fails only if no part can be read."""
    parts = list(asset.parts.select_related("node"))
    if not parts:
        raise NotDecoded(f"{asset} has no files.")
    seen = seen_of(parts, run)
    probes: dict[int, probing.Probe] = {}
    faults = [f"{part.path} was not found." for part in parts if part.number not in seen]
    lengths: dict[int, tuple[int, float]] = {part.number: (0, 0.0) for part in parts if part.number not in seen}
    part_facts: dict[int, dict[str, Any]] = {}
    for place, part in enumerate(parts):
        run.report(100 * place / len(parts), f"part {part.number}")
        path = seen.get(part.number)
        try:
            found = probing.probe(path) if path else None
        except NotDecoded as fault:
            faults.append(str(fault))
            lengths[part.number] = (0, 0.0)
            found = None
        if path is None or found is None:
            part_facts[part.pk] = {"is_readable": False}
            continue
        probes[part.number] = found
        if found.pictures and _must_be_counted(part):
            lengths[part.number] = probing.count_pictures(path)
        seconds = part.seconds or found.duration_seconds or 0.0
        part_facts[part.pk] = {"is_readable": True, "seconds": seconds, "size_bytes": path.stat().st_size}
    if not probes:  # write nothing: another job worker may still be able to read the parts
        raise NotDecoded(faults[0])
    for pk, facts in part_facts.items():
        AssetPart.objects.filter(pk=pk).update(**facts)
    technical, changes = describe(asset, list(probes.values()), lengths)
    changes["error"] = " ".join(faults)
    if len(seen) < len(parts):  # a part exists, but not here: the asset is incomplete whatever its length
        changes["is_complete"] = False
    return {
        "container": technical["container"],
        "duration_seconds": changes["duration_seconds"],
        "faults": faults,
    }, changes


def seen_of(parts: list[AssetPart], run: RunContext) -> dict[int, Path]:
    """The path of each part. A missing part raises FileGone for some attempts, then it is left out."""
    seen: dict[int, Path] = {}
    gone: list[FileGone] = []
    for part in parts:
        try:
            seen[part.number] = path_of(part)
        except FileGone as fault:
            gone.append(fault)
    if gone and (not seen or run.attempt <= WAITED_FOR):
        raise gone[0]
    return seen


def _must_be_counted(part: AssetPart) -> bool:
    """A part of a recording whose media worker did not report its length, or that could not be read before."""
    if part.first_frame_at is None:
        return False
    return part.end_reason in INTERRUPTED or not part.end_reason or not part.frames


def describe(
    asset: Asset, probes: list[probing.Probe], lengths: dict[int, tuple[int, float]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The technical data of the asset: video and audio of the first part that has them."""
    shown = next((each for each in probes if each.pictures), probes[0])
    heard = next((each for each in probes if each.sounds), probes[0])
    duration = round(sum(each.duration_seconds or 0.0 for each in probes), 3)
    whole = shown.as_dict()
    technical = {**whole, "sounds": heard.as_dict()["sounds"], "parts": [each.as_dict() for each in probes]}
    changes: dict[str, Any] = {
        **gaps.refine(asset, lengths),
        "technical": technical,
        "duration_seconds": duration,
        "video_format": str(shown.pictures[0])[:40] if shown.pictures else "",
        "audio_format": str(heard.sounds[0])[:60] if heard.sounds else "",
        "timecode": probes[0].timecode,
    }
    if shown.pictures and shown.pictures[0].fps and not asset.frames:
        changes["frames"] = round(duration * shown.pictures[0].fps)
    return technical, changes


@step(Kind.CHECKSUM, "Compute the SHA-256 of every file", 6 * HOUR)
def checksum(run: RunContext, asset: Asset) -> Found:
    every = list(asset.parts.select_related("node"))
    seen = seen_of(every, run)
    parts = [part for part in every if part.number in seen]
    sums = checksums.of_files([seen[part.number] for part in parts], lambda percent: run.report(percent, "reading"))
    for part, value in zip(parts, sums.each, strict=True):
        part.sha256 = value
        part.save(update_fields=["sha256"])
    return {"sha256": sums.whole, "parts": sums.each}, {"sha256": sums.whole}


@step(Kind.PICTURES, "Make the poster and the filmstrip", 1 * HOUR)
def pictures(run: RunContext, asset: Asset) -> Found:
    media, seconds = media_of(asset), _seconds(asset)
    products.sweep_drafts(asset.pk, POSTER, FILMSTRIP)
    run.report(10, "poster")
    products.make_poster(asset.pk, media, seconds)
    tiles = products.make_filmstrip(asset.pk, media, seconds, progress(run, asset, "filmstrip"))
    return {"tiles": tiles}, {}


@step(Kind.PROXY, "Make the proxy for the browser", 12 * HOUR)
def proxy(run: RunContext, asset: Asset) -> Found:
    shown = asset.technical.get("pictures") or []
    size = probing.Picture(**shown[0]).shown_size if shown else None
    products.sweep_drafts(asset.pk, PROXY)
    size_bytes = products.make_proxy(
        asset.pk,
        media_of(asset),
        size=size,
        has_sound=bool(asset.technical.get("sounds")),
        on_progress=progress(run, asset, "encoding"),
    )
    return {"size_bytes": size_bytes}, {}


@step(Kind.LOUDNESS, "Measure the loudness (EBU R128)", 4 * HOUR)
def loudness(run: RunContext, asset: Asset) -> Found:
    found = measuring.measure_loudness(media_of(asset), progress(run, asset, "measuring"))
    result = {
        "loudness_lufs": found.integrated_lufs,
        "loudness_range_lu": found.range_lu,
        "true_peak_dbtp": found.true_peak_dbtp,
    }
    return result, dict(result)


@step(Kind.REPORT, "Find black, silence and freeze frames", 8 * HOUR)
def report(run: RunContext, asset: Asset) -> Found:
    found = measuring.find_stretches(
        media_of(asset),
        has_picture=bool(asset.technical.get("pictures")),
        has_sound=bool(asset.technical.get("sounds")),
        duration=asset.duration_seconds or 0.0,
        on_progress=progress(run, asset, "analysing"),
    )
    return {"findings": len(found)}, {"findings": [each.as_dict() for each in found]}


def _seconds(asset: Asset) -> list[float]:
    """The length of each part as measured by the probe."""
    parts = asset.technical.get("parts") or []
    return [float(part.get("duration_seconds") or 0.0) for part in parts] or [asset.duration_seconds or 0.0]


@job(
    imports.JOB,
    payload=imports.ImportOrder,
    isolation="process",
    timeout_seconds=6 * HOUR,
    attempts=12,
    backoff_seconds=(5.0, 30.0, 300.0, 1800.0, 3600.0),
)
def import_file(run: RunContext, order: imports.ImportOrder) -> dict[str, Any]:
    """Import one file into the library."""
    return import_run.run_import(run, order)


@job(
    watch_folders.JOB,
    payload=watch_folders.WatchOrder,
    isolation="process",
    timeout_seconds=120,
    attempts=1,
    keep=MINOR,
)
def watch(run: RunContext, order: watch_folders.WatchOrder) -> dict[str, Any]:
    """Check a watch folder for new files."""
    return watch_folders.run_watch(run, order)


# One attempt per run: the delivery counts its own attempts and waits longer between them.
@job(
    lifecycle.JOB,
    payload=lifecycle.DeliveryOrder,
    isolation="process",
    timeout_seconds=1.5 * HOUR,
    attempts=1,
)
def deliver(run: RunContext, order: lifecycle.DeliveryOrder) -> dict[str, Any]:
    """Deliver an asset to the MAM."""
    return attempt.deliver(run, order)


@job(
    "assets.retention",
    when=every(HOUR, delay_seconds=150),
    isolation="process",
    timeout_seconds=1800,
    keep=MINOR,
)
def apply_retention(run: RunContext) -> dict[str, Any]:
    """Move assets to the trash by the retention rules, and empty the trash."""
    now = database_now()
    return {**retention.apply(now, run.check), "uploads": imports.sweep_uploads(now)}
