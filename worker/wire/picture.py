"""The channel's format: how big a frame is, when it is due, how much sound goes with it, and pictures of our own."""

from dataclasses import dataclass
from fractions import Fraction

SAMPLE_RATE = 48_000
SAMPLE_BYTES = 4  # stereo, 16 bit
BLACK = (16, 128, 128)
# 75 % bars, left to right: white, yellow, cyan, green, magenta, red, blue, black (Y, U, V by BT.709).
BARS = (
    (180, 128, 128),
    (168, 44, 136),
    (145, 147, 44),
    (133, 63, 52),
    (63, 193, 204),
    (51, 109, 212),
    (28, 212, 120),
    BLACK,
)


@dataclass(frozen=True)
class Format:
    """Progressive, 4:2:0, 8 bit; sound 48 kHz stereo."""

    width: int
    height: int
    rate: Fraction

    @property
    def frame_bytes(self) -> int:
        return self.width * self.height * 3 // 2

    @property
    def rate_text(self) -> str:
        return f"{self.rate.numerator}/{self.rate.denominator}"

    def frames_in(self, seconds: float) -> int:
        """How many frames last that long."""
        return round(seconds * self.rate)

    def seconds_of(self, frames: int) -> float:
        return float(frames / self.rate)

    def samples_before(self, frame: int) -> int:
        """How many samples have gone out when frame number `frame` begins: exact over any length of time."""
        return int(frame * SAMPLE_RATE / self.rate)

    def samples_of(self, frame: int) -> int:
        """The sound that goes with one frame; at 29.97 it is not the same for each."""
        return self.samples_before(frame + 1) - self.samples_before(frame)

    def plain(self, colour: tuple[int, int, int] = BLACK) -> bytes:
        """A frame of one colour."""
        luma, blue, red = colour
        area = self.width * self.height
        return bytes([luma]) * area + bytes([blue]) * (area // 4) + bytes([red]) * (area // 4)

    def bars(self) -> bytes:
        """Colour bars: seen at once on any monitor as "nothing to play"."""
        planes = []
        for plane in range(3):
            width = self.width if plane == 0 else self.width // 2
            height = self.height if plane == 0 else self.height // 2
            row = bytes(BARS[min(x * len(BARS) // width, len(BARS) - 1)][plane] for x in range(width))
            planes.append(row * height)
        return b"".join(planes)


def silence(samples: int) -> bytes:
    return bytes(samples * SAMPLE_BYTES)
