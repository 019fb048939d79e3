"""Makes the poster, filmstrip and proxy of an asset. Each appears complete, by one rename."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from assets.files.locations import FILMSTRIP, POSTER, PROXY, check_room, products_dir
from assets.files.sandboxed_ffmpeg import Media, NotDecoded, ignore_progress, run_ffmpeg

TILES, TILE_WIDTH, TILE_HEIGHT = 12, 160, 90
POSTER_WIDTH = 640
LONG_SECONDS = 120.0
PROXY_HEIGHT, PROXY_RATE = 360, "800k"
# Browsers show square pixels; the pixels of SD and of some HD are not.
SQUARE = "scale=trunc(iw*sar/2)*2:ih,setsar=1"


@contextlib.contextmanager
def fresh(asset_id: int, name: str) -> Iterator[Path]:
    """A temporary file to write to; it is renamed when the block succeeds and deleted otherwise."""
    check_room()
    target = products_dir(asset_id) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as folder:
        draft = Path(folder) / name
        yield draft
        with draft.open("rb") as handle:
            os.fsync(handle.fileno())
        draft.replace(target)


def sweep_drafts(asset_id: int, *names: str) -> int:
    """Delete drafts left by job workers that were killed. Call it before making these products. Returns how many."""
    count = 0
    for name in names:
        for folder in products_dir(asset_id).glob(f".{name}-*"):
            shutil.rmtree(folder, ignore_errors=True)
            count += 1
    return count


def make_poster(asset_id: int, media: Media, seconds: list[float]) -> None:
    """A representative frame shortly after the beginning: the filter `thumbnail` avoids black and fades."""
    part, offset = locate(seconds, min(sum(seconds) * 0.1, 60.0))
    with fresh(asset_id, POSTER) as draft:
        filters = f"thumbnail=50,yadif=deint=interlaced,{SQUARE},scale={POSTER_WIDTH}:-2"
        outputs = ["-map", "0:v:0", "-vf", filters, "-frames:v", "1", "-q:v", "4", "-f", "image2", "-update", "1"]
        one = Media((media.files[part],))
        run_ffmpeg(one, [*outputs, f"file:{draft}"], writes=draft.parent, decoder=["-ss", f"{offset:.3f}"])
        if not draft.is_file():  # nothing decodable after that point
            run_ffmpeg(one, [*outputs, f"file:{draft}"], writes=draft.parent)
        if not draft.is_file():
            raise NotDecoded("no frame could be decoded")


def make_filmstrip(asset_id: int, media: Media, seconds: list[float], on_progress: Callable[[float], None]) -> int:
    """Small frames from beginning to end, side by side in one file. Returns how many.

    One pass, because seeking near the end of a transport stream often fails. Of long media only key frames are decoded.
    """
    total = max(sum(seconds), 0.04)
    count = max(1, min(TILES, int(total * 2)))
    box = f"{SQUARE},scale={TILE_WIDTH}:{TILE_HEIGHT}:force_original_aspect_ratio=decrease,"
    box += f"pad={TILE_WIDTH}:{TILE_HEIGHT}:(ow-iw)/2:(oh-ih)/2,setsar=1"
    filters = f"fps={count}/{total:.3f}:round=up,{box},tile={count}x1"
    outputs = ["-map", "0:v:0", "-vf", filters, "-frames:v", "1", "-q:v", "5", "-f", "image2", "-update", "1"]
    decoder = ["-skip_frame", "nokey"] if total > LONG_SECONDS else []
    with fresh(asset_id, FILMSTRIP) as draft:
        outputs.append(f"file:{draft}")
        run_ffmpeg(media, outputs, writes=draft.parent, decoder=decoder, on_progress=on_progress)
        if not draft.is_file():
            raise NotDecoded("no frames could be decoded for the filmstrip")
    return count


def make_proxy(
    asset_id: int,
    media: Media,
    *,
    size: tuple[int, int] | None,
    has_sound: bool,
    on_progress: Callable[[float], None] = ignore_progress,
) -> int:
    """H.264 and AAC in an MP4 that plays while it loads. `size` is in square pixels. Returns its size in bytes."""
    outputs: list[str] = []
    if size:
        width, height = proxy_size(*size)
        box = f"scale={width}:{height}:force_original_aspect_ratio=decrease,pad={width}:{height}:(ow-iw)/2:(oh-ih)/2"
        outputs += ["-map", "0:v:0", "-vf", f"yadif=deint=interlaced,{SQUARE},{box},setsar=1,format=yuv420p"]
        outputs += ["-c:v", "libx264", "-preset", "veryfast", "-profile:v", "main", "-g", "50", "-fpsmax", "30"]
        outputs += ["-b:v", PROXY_RATE, "-maxrate", "1200k", "-bufsize", "2400k"]
    if has_sound:
        outputs += ["-map", "0:a:0", "-c:a", "aac", "-b:a", "128k", "-ac", "2", "-ar", "48000"]
    with fresh(asset_id, PROXY) as draft:
        outputs += ["-movflags", "+faststart", "-f", "mp4", f"file:{draft}"]
        run_ffmpeg(media, outputs, writes=draft.parent, on_progress=on_progress)
    return (products_dir(asset_id) / PROXY).stat().st_size


def proxy_size(width: int, height: int) -> tuple[int, int]:
    """Width and height: at most 360 lines, never larger than the original, even numbers."""
    lines = min(PROXY_HEIGHT, height)
    return max(2, round(width * lines / height / 2) * 2), max(2, lines // 2 * 2)


def locate(seconds: list[float], moment: float) -> tuple[int, float]:
    """The part that contains this moment, and the offset in it."""
    for number, length in enumerate(seconds):
        if moment < length or number == len(seconds) - 1:
            return number, max(0.0, min(moment, length - 0.2))
        moment -= length
    return 0, 0.0
