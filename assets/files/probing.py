"""Reads a file's technical data from ffmpeg's log, because ffprobe is not installed everywhere."""

import re
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from assets.files.sandboxed_ffmpeg import Media, NotDecoded, run_ffmpeg

LOOK_SECONDS = "2"
TRANSPORT_STREAM = "mpegts"
UNDETERMINED = "und"
_DURATION = re.compile(r"^\s+Duration: (?:(\d+):(\d\d):(\d\d(?:\.\d+)?)|N/A)(?:, start: (-?[\d.]+))?")
_FORMAT = re.compile(r"^Input #0, (.+), from ")
_STREAM = re.compile(r"^\s+Stream #0:\d+(?:\[\w+\])?(?:\(([\w,]*)\))?: (Video|Audio|Subtitle|Data): (.*)$")
_ASPECT = re.compile(r"DAR (\d+):(\d+)")
_SIZE = re.compile(r"(?<![\w/])(\d{2,5})x(\d{2,5})(?![\w/])")
_FPS = re.compile(r"([\d.]+)(k?) fps")
_RATE = re.compile(r"(\d+) Hz, ([^,]+)")
_BITRATE = re.compile(r"([\d.]+) kb/s")
_TIMECODE = re.compile(r"^\s+timecode\s*: (\d\d:\d\d:\d\d[:;.]\d\d)\s*$")
_FRAME = re.compile(r"^frame=\s*(\d+)")
_INTERLACED = ("top first", "bottom first", "top coded first", "bottom coded first")
_LAYOUTS = {"mono": 1, "stereo": 2, "2.1": 3, "quad": 4, "5.0": 5, "5.1": 6, "5.1(side)": 6, "7.1": 8}


@dataclass(frozen=True)
class Picture:
    codec: str
    width: int
    height: int
    fps: float | None
    is_interlaced: bool
    aspect: str = ""  # of the picture as it is shown, like 16:9

    @property
    def shown_size(self) -> tuple[int, int]:
        """Width and height in square pixels."""
        wide, _, high = self.aspect.partition(":")
        return (round(self.height * int(wide) / int(high)), self.height) if high else (self.width, self.height)

    def __str__(self) -> str:
        if self.fps is None:
            return f"{self.width}x{self.height}"
        return f"{self.width}x{self.height}{'i' if self.is_interlaced else 'p'}{self.fps:g}"


@dataclass(frozen=True)
class Sound:
    codec: str
    sample_rate: int
    channels: int
    layout: str
    language: str = ""

    def __str__(self) -> str:
        language = f" ({self.language})" if self.language else ""
        return f"{self.codec} {self.sample_rate / 1000:g} kHz {self.layout}{language}"


@dataclass(frozen=True)
class OtherTrack:
    """Subtitles, teletext, SCTE-35 markers and other data."""

    codec: str
    language: str = ""


@dataclass(frozen=True)
class Probe:
    """The technical data of one file."""

    container: str
    duration_seconds: float | None
    timecode: str
    pictures: list[Picture] = field(default_factory=list)
    sounds: list[Sound] = field(default_factory=list)
    others: list[OtherTrack] = field(default_factory=list)

    @property
    def is_media(self) -> bool:
        return bool(self.pictures or self.sounds)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def probe(path: Path) -> Probe:
    """Open the file, decode its beginning and return its technical data. Raises NotDecoded with a readable reason."""
    outputs = ["-map", "0:v:0?", "-map", "0:a:0?", "-t", LOOK_SECONDS, "-f", "null", "-"]
    decoded = [0.0]
    try:
        said = run_ffmpeg(Media((path,)), outputs, on_progress=lambda seconds: decoded.append(seconds))
    except NotDecoded as error:
        raise NotDecoded(f"{path.name} is not readable media: {_plain(str(error), path)}") from error
    found = parse(said)
    if not found.is_media:
        raise NotDecoded(f"{path.name} is not readable media: it has no video and no audio.")
    if max(decoded) <= 0:
        raise NotDecoded(f"{path.name} cannot be decoded: its beginning has no video and no audio.")
    if found.container == TRANSPORT_STREAM:
        # It has no length of its own. ffmpeg subtracts its first and last time stamp, but its clock may jump.
        return replace(found, duration_seconds=measure_seconds(path, "-c", "copy"))
    if found.duration_seconds is None:
        return replace(found, duration_seconds=measure_seconds(path))
    return found


def measure_seconds(path: Path, *how: str) -> float:
    """The length of a file whose header does not tell it: read it to its end."""
    seconds = [0.0]
    outputs = ["-map", "0:v:0?", "-map", "0:a:0?", *how, "-f", "null", "-"]
    run_ffmpeg(Media((path,)), outputs, on_progress=seconds.append)
    return round(max(seconds), 3)


def count_pictures(path: Path) -> tuple[int, float]:
    """The real number of frames in a file and their length in seconds, counted by packet without decoding."""
    with tempfile.TemporaryDirectory(prefix="airlock-count-") as folder:
        listing = Path(folder) / "packets"
        run_ffmpeg(
            Media((path,)),
            ["-map", "0:v:0", "-c", "copy", "-f", "framecrc", f"file:{listing}"],
            writes=listing.parent,
        )
        with listing.open() as handle:
            return _sum_up(handle)


def _sum_up(lines: Iterable[str]) -> tuple[int, float]:
    """Line by line, because a day of video has millions of frames."""
    count, first, last, lasting, base = 0, None, 0, 0, (1, 1000)
    for line in lines:
        if line.startswith("#tb 0"):
            above, below = line.split(": ")[1].split("/")
            base = (int(above), int(below))
        if not line.strip() or line.startswith("#"):
            continue
        shown, lasting = (int(word) for word in line.split(",")[2:4])
        count, first, last = count + 1, shown if first is None else min(first, shown), max(last, shown)
    if first is None:
        return 0, 0.0
    lasting = lasting or (last - first) // max(1, count - 1)
    return count, round((last - first + lasting) * base[0] / base[1], 3)


def parse(said: Iterable[str]) -> Probe:
    """Parse ffmpeg's description of its first input."""
    container, duration, timecode = "", None, ""
    pictures: list[Picture] = []
    sounds: list[Sound] = []
    others: list[OtherTrack] = []
    for line in said:
        if line.startswith(("Stream mapping", "Output #")):
            break
        if found := _FORMAT.match(line):
            container = found.group(1).partition(",")[0]
        elif (found := _DURATION.match(line)) and found.group(1):
            hours, minutes, seconds = found.group(1, 2, 3)
            duration = round(int(hours) * 3600 + int(minutes) * 60 + float(seconds), 3)
        elif (found := _TIMECODE.match(line)) and not timecode:
            timecode = found.group(1)
        elif found := _STREAM.match(line):
            language, kind, text = found.group(1, 2, 3)
            language = "" if language in {None, UNDETERMINED} else language
            if kind == "Video" and "attached pic" not in text and (picture := _picture(text)):
                pictures.append(picture)
            elif kind == "Audio" and (sound := _sound(text, language)):
                sounds.append(sound)
            elif kind in {"Subtitle", "Data"}:
                others.append(OtherTrack(text.split()[0].rstrip(","), language))
    return Probe(container, duration, timecode, pictures, sounds, others)


def _picture(text: str) -> Picture | None:
    size, fps = _SIZE.search(text), _FPS.search(text)
    if size is None:
        return None
    rate = float(fps.group(1)) * (1000 if fps.group(2) else 1) if fps else None
    is_interlaced = any(order in text for order in _INTERLACED)
    shape = _ASPECT.search(text)
    aspect = f"{shape.group(1)}:{shape.group(2)}" if shape and "0" not in shape.groups() else ""
    return Picture(text.split()[0].rstrip(","), int(size.group(1)), int(size.group(2)), rate, is_interlaced, aspect)


def _sound(text: str, language: str) -> Sound | None:
    rate = _RATE.search(text)
    if rate is None:
        return None
    layout = rate.group(2).strip()
    number = re.match(r"(\d+) channels", layout)
    channels = int(number.group(1)) if number else _LAYOUTS.get(layout, 0)
    return Sound(text.split()[0].rstrip(","), int(rate.group(1)), channels, layout, language)


def _plain(words: str, path: Path) -> str:
    """ffmpeg's message without our paths; the most common ones in plainer words."""
    words = words.replace(f"file:{path}", path.name).replace(str(path), path.name)
    if "Format not on whitelist" in words or "Invalid data found" in words:
        return "it is not in a known video or audio format."
    if "moov atom not found" in words:
        return "it is incomplete (the index at its end is missing)."
    return words
