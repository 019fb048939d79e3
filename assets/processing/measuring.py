"""Measurements: loudness (EBU R128), and stretches of black, silence and freeze frame."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings

from assets.files.sandboxed_ffmpeg import Media, run_ffmpeg

SILENCE_LEVEL = "-60dB"
# Scaled down: black and freeze are detected as well at a small size, at a tenth of the cost.
SMALL = "scale=256:-2"
_LOUDNESS = re.compile(r"^\s+(I|LRA|Peak):\s+(-?inf|nan|-?[\d.]+) (?:LUFS|LU|dBFS)")
_BLACK = re.compile(r"black_start:([\d.]+) black_end:([\d.]+)")
_FOUND = re.compile(r"black_start|silence_start|silence_end|freeze_start|freeze_end")
_SILENCE_START = re.compile(r"silence_start: (-?[\d.]+)")
_SILENCE_END = re.compile(r"silence_end: ([\d.]+)")
_FREEZE_START = re.compile(r"freeze_start: ([\d.]+)")
_FREEZE_END = re.compile(r"freeze_end: ([\d.]+)")


@dataclass(frozen=True)
class Loudness:
    """None means silence: there was nothing to measure."""

    integrated_lufs: float | None
    range_lu: float | None
    true_peak_dbtp: float | None


@dataclass(frozen=True)
class Finding:
    """A stretch of media, in seconds from its beginning."""

    kind: str
    from_seconds: float
    to_seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_loudness(media: Media, on_progress: Callable[[float], None]) -> Loudness:
    filters = "aformat=channel_layouts=mono|stereo|5.1,ebur128=peak=true:framelog=quiet"
    said = run_ffmpeg(media, ["-map", "0:a:0", "-af", filters, "-f", "null", "-"], on_progress=on_progress)
    return parse_loudness(said)


def parse_loudness(said: Iterable[str]) -> Loudness:
    """Read the summary at the end. The first value of each name counts; the thresholds follow after it."""
    found: dict[str, float | None] = {}
    for line in said:
        if matched := _LOUDNESS.match(line):
            name, value = matched.groups()
            found.setdefault(name, None if "inf" in value or value == "nan" else float(value))
    integrated = found.get("I")
    # Below the absolute gate everything is silence: ebur128 reports -70 then.
    if integrated is not None and integrated <= -70:
        integrated = None
    return Loudness(integrated, found.get("LRA"), found.get("Peak"))


def find_stretches(
    media: Media, *, has_picture: bool, has_sound: bool, duration: float, on_progress: Callable[[float], None]
) -> list[Finding]:
    """Decode everything once and list what is black, silent or frozen for long enough."""
    outputs: list[str] = []
    if has_picture:
        black = f"blackdetect=d={settings.REPORT_BLACK_SECONDS}:pix_th=0.10"
        freeze = f"freezedetect=n=0.001:d={settings.REPORT_FREEZE_SECONDS}"
        outputs += ["-map", "0:v:0", "-vf", f"{SMALL},{black},{freeze}"]
    if has_sound:
        silence = f"silencedetect=n={SILENCE_LEVEL}:d={settings.REPORT_SILENCE_SECONDS}"
        outputs += ["-map", "0:a:0", "-af", silence]
    said = run_ffmpeg(media, [*outputs, "-f", "null", "-"], on_progress=on_progress, keep=_FOUND)
    return parse_findings(said, duration)


def parse_findings(said: Iterable[str], duration: float) -> list[Finding]:
    """All findings in order of time. One that is open at the end lasts until the end."""
    found: list[Finding] = []
    silent_from: float | None = None
    frozen_from: float | None = None
    for line in said:
        if matched := _BLACK.search(line):
            found.append(Finding("black", float(matched.group(1)), float(matched.group(2))))
        elif matched := _SILENCE_START.search(line):
            silent_from = max(0.0, float(matched.group(1)))
        elif (matched := _SILENCE_END.search(line)) and silent_from is not None:
            found.append(Finding("silence", silent_from, float(matched.group(1))))
            silent_from = None
        elif matched := _FREEZE_START.search(line):
            frozen_from = float(matched.group(1))
        elif (matched := _FREEZE_END.search(line)) and frozen_from is not None:
            found.append(Finding("freeze", frozen_from, float(matched.group(1))))
            frozen_from = None
    if silent_from is not None:
        found.append(Finding("silence", silent_from, duration))
    if frozen_from is not None:
        found.append(Finding("freeze", frozen_from, duration))
    black = [each for each in found if each.kind == "black"]
    found = [each for each in found if each.kind != "freeze" or not any(_holds(dark, each) for dark in black)]
    rounded = (Finding(each.kind, round(each.from_seconds, 2), round(each.to_seconds, 2)) for each in found)
    return sorted(rounded, key=lambda each: (each.from_seconds, each.kind))


def _holds(dark: Finding, still: Finding) -> bool:
    """A black stretch is also frozen; report it only as black."""
    return dark.from_seconds - 0.2 <= still.from_seconds and still.to_seconds <= dark.to_seconds + 0.2
