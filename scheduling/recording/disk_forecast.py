"""Forecast of the disk space a recording needs: from this recorder's last recordings, or from its bitrate (R-18)."""

from scheduling.models import Booking, Recorder

BITS = {"k": 1_000, "M": 1_000_000}
OVERHEAD = 1.1
RECENT = 5
COPIED_BITS_PER_SECOND = 8_000_000  # a network source is copied as it is; a common bitrate until its own is known
ENCODED = {"test", "decklink"}


def bytes_per_second(recorder: Recorder) -> float:
    """The mean of the last recordings; without any, an estimate from the settings."""
    recent = Booking.objects.filter(recorder=recorder, size_bytes__gt=0).order_by("-starts_at")[:RECENT]
    sizes, seconds = 0, 0.0
    for size, parts in recent.values_list("size_bytes", "parts"):
        sizes += size
        seconds += sum(float(part.get("seconds", 0)) for part in parts)
    if seconds > 10:
        return sizes / seconds
    if recorder.source_type in ENCODED:
        bitrate = recorder.video_bitrate
        return (int(bitrate[:-1]) * BITS[bitrate[-1]] + 192_000) / 8
    return COPIED_BITS_PER_SECOND / 8


def bytes_needed(booking: Booking) -> int:
    length = (booking.closes_at - booking.opens_at).total_seconds()
    return int(bytes_per_second(booking.recorder) * length * OVERHEAD)
