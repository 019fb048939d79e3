"""What a recording's files really hold, against what its booking says of them."""

from pathlib import Path

from django.conf import settings

from scheduling.models import Booking
from testing.media import decode

FRAMES_PER_SECOND = 25
# An encoder's last flush, and the rounding of a frame at either end.
SLACK_SECONDS = 0.5


def held_seconds(booking: Booking, media: Path) -> float:
    """Every part decoded from end to end; a picture of the tests has 25 frames a second."""
    return sum(decode(media / booking.folder / part["file"]) for part in booking.parts) / FRAMES_PER_SECOND


def assert_true_verdict(booking: Booking, media: Path) -> float:
    """Completed: the files lack no more of the window than is tolerated. Partial: they lack more."""
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
