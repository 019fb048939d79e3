"""Durations as people type them: 90, 12.5, 1:30 or 0:01:30.5; and timecodes with frames: 00:00:02:12, 00:01:00;02."""

import math
import re
from fractions import Fraction
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

PLAIN = re.compile(r"^(?:([0-9]{1,4}):)?(?:([0-9]{1,6}):)?([0-9]{1,9}(?:[.,][0-9]*)?)$", re.ASCII)
TIMECODE = re.compile(r"^([0-9]{1,3})[:;]([0-9]{1,2})[:;]([0-9]{1,2})([:;])([0-9]{1,3})$", re.ASCII)
SIXTY = 60


def seconds_of(value: Any, rate: Fraction | None = None) -> float | None:
    """Read seconds, h:mm:ss with fractions, or a timecode at `rate`. Raises ValueError with a message for the user."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"“{value}” is not a time like 12.5 or 0:01:30.")
        return float(value)
    text = str(value if value is not None else "").strip()
    if not text:
        return None
    if match := TIMECODE.match(text):
        hours, minutes, seconds, frames = (int(match[group]) for group in (1, 2, 3, 5))
        if minutes >= SIXTY or seconds >= SIXTY:
            raise ValueError(f"“{text}”: minutes and seconds must be under 60.")
        return _of_frames(text, (hours * SIXTY + minutes) * SIXTY + seconds, frames, rate, is_drop=match[4] == ";")
    match = PLAIN.match(text)
    if match is None:
        raise ValueError(f"“{text}” is not a time like 12.5 or 0:01:30.")
    first, second, last = match[1], match[2], float(match[3].replace(",", "."))
    if (first is not None and last >= SIXTY) or (second is not None and int(second) >= SIXTY):
        raise ValueError(f"“{text}”: minutes and seconds must be under 60.")
    if second is None:  # the only group before the seconds are minutes
        return int(first or 0) * SIXTY + last
    return (int(first or 0) * SIXTY + int(second)) * SIXTY + last


def _of_frames(text: str, seconds: int, frames: int, rate: Fraction | None, *, is_drop: bool) -> float:
    """Labels count whole frames per second; drop-frame leaves out labels so that they keep up with the clock."""
    if rate is None:
        raise ValueError(
            f"“{text}” has frames, but the frame rate is not known here. Choose the channel first, or write 0:00:02.5."
        )
    per_second = math.ceil(rate)
    if frames >= per_second:
        raise ValueError(f"“{text}”: at {float(rate):g} frames a second, frames go from 0 to {per_second - 1}.")
    number = seconds * per_second + frames
    if is_drop:
        if rate.denominator != 1001 or per_second % 30:
            raise ValueError(
                f"“{text}” is drop-frame timecode, which exists only at 29.97 and 59.94 frames a second, not at "
                f"{float(rate):g}. Write a colon before the frames."
            )
        left_out, minutes = per_second // 15, seconds // SIXTY
        if minutes % 10 and seconds % SIXTY == 0 and frames < left_out:
            raise ValueError(f"“{text}” does not exist: drop-frame timecode leaves it out.")
        number -= left_out * (minutes - minutes // 10)
    return float(number / rate)


class SecondsField(forms.FloatField):
    """A number, a time with colons, or a timecode if `rate` is set."""

    rate: Fraction | None = None

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return seconds_of(value, self.rate)
            except ValueError as error:
                raise ValidationError(str(error)) from error
        return super().to_python(value)
