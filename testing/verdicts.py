"""Compares the recorded files with the state of their booking."""

from pathlib import Path

from django.conf import settings

from scheduling.models import Booking
from testing.media import decode

FRAMES_PER_SECOND = 25
# For the encoder's last flush, and the rounding to whole frames at both ends.
SLACK_SECONDS = 0.5


def held_seconds(booking: Booking, media: Path) -> float:
    """The total length of all parts, by decoding them completely; test sources have 25 frames per second."""
    return sum(decode(media / booking.folder / part["file"]) for part in booking.parts) / FRAMES_PER_SECOND


def assert_true_verdict(booking: Booking, media: Path) -> float:
    """A completed recording misses at most the tolerated seconds of its window; a partial one misses more."""
    until = min(booking.events.filter(new=Booking.State.STOPPING).latest("at").at, booking.closes_at)
    wanted = (until - booking.opens_at).total_seconds()
    held = held_seconds(booking, media)
    missing = wanted - held
    words = f"{booking}: {booking.state}, {held:.1f} s of {wanted:.1f} s in its files"
    if booking.state == Booking.State.COMPLETED:
        assert missing <= settings.TOLERATED_GAP_SECONDS + SLACK_SECONDS, words
    elif booking.state == Booking.State.PARTIAL and booking.outcome != "disk_full":
        assert missing > settings.TOLERATED_GAP_SECONDS - SLACK_SECONDS, words
    return held
