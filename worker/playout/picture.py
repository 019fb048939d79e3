"""Pictures and sound that the playout program makes itself: colour bars, a plain colour, silence."""

from worker.wire.picture import Format

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


def plain(picture: Format, colour: tuple[int, int, int] = BLACK) -> bytes:
    """A frame of one colour."""
    luma, blue, red = colour
    area = picture.width * picture.height
    return bytes([luma]) * area + bytes([blue]) * (area // 4) + bytes([red]) * (area // 4)


def bars(picture: Format) -> bytes:
    """A frame of colour bars, the usual sign for "nothing to play"."""
    planes = []
    for plane in range(3):
        width = picture.width if plane == 0 else picture.width // 2
        height = picture.height if plane == 0 else picture.height // 2
        row = bytes(BARS[min(x * len(BARS) // width, len(BARS) - 1)][plane] for x in range(width))
        planes.append(row * height)
    return b"".join(planes)


def silence(samples: int) -> bytes:
    return bytes(samples * SAMPLE_BYTES)
