"""A channel's format: the size and rate of its frames, and the number of samples per frame."""

from dataclasses import dataclass
from fractions import Fraction

SAMPLE_RATE = 48_000
MIN_RATE, MAX_RATE = 1, 120
FITS = ("pad", "crop", "stretch")


@dataclass(frozen=True)
class Format:
    """Progressive, 4:2:0, 8 bit; sound 48 kHz stereo. `fit`: what is done with pictures of another shape."""

    width: int
    height: int
    rate: Fraction
    fit: str = "pad"

    def problem(self) -> str:
        """Why the format is impossible; empty if it is possible."""
        if self.width <= 0 or self.height <= 0 or self.width % 2 or self.height % 2:
            return "width and height must be even numbers"
        if self.fit not in FITS:
            return f"fit must be one of {', '.join(FITS)}"
        if not MIN_RATE <= self.rate <= MAX_RATE:
            return f"the frame rate must be between {MIN_RATE} and {MAX_RATE}"
        return ""

    @property
    def frame_bytes(self) -> int:
        return self.width * self.height * 3 // 2

    @property
    def rate_text(self) -> str:
        return f"{self.rate.numerator}/{self.rate.denominator}"

    def frames_in(self, seconds: float) -> int:
        """The number of frames in that time."""
        return round(seconds * self.rate)

    def seconds_of(self, frames: int) -> float:
        return float(frames / self.rate)

    def samples_before(self, frame: int) -> int:
        """The number of samples before frame number `frame`, exact over any length of time."""
        return int(frame * SAMPLE_RATE / self.rate)

    def samples_of(self, frame: int) -> int:
        """The number of samples of one frame; at 29.97 frames a second it varies."""
        return self.samples_before(frame + 1) - self.samples_before(frame)
