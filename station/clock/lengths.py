"""Durations as people type them: 90, 12.5, 1:30 or 0:01:30.5."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError


def seconds_of(value: Any) -> float | None:
    """Read seconds, or h:mm:ss with fractions. Raises ValueError with a message for the user."""
    text = str(value if value is not None else "").strip()
    if not text:
        return None
    try:
        seconds = 0.0
        for part in text.split(":"):
            if not part or not part.replace(".", "", 1).isascii() or not part.replace(".", "", 1).isdigit():
                raise ValueError
            seconds = seconds * 60 + float(part)
    except ValueError:
        raise ValueError(f"“{text}” is not a time like 12.5 or 0:01:30.") from None
    return seconds


class SecondsField(forms.FloatField):
    """A number, or a time with colons."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and ":" in value:
            try:
                return seconds_of(value)
            except ValueError as error:
                raise ValidationError(str(error)) from error
        return super().to_python(value)
