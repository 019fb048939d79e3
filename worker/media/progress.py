"""What a running ffmpeg has reported so far."""

import math
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outage:
    """Nothing arrived between these times (monotonic). `slipped_seconds` of it are not in the stream's own time."""

    from_at: float
    to_at: float
    slipped_seconds: float


@dataclass
class Progress:
    """ffmpeg's latest progress."""

    frames: int = 0
    out_seconds: float = 0.0
    changed_at: float | None = None  # monotonic; None until the first frame
    # The same for the picture only, if frames are counted: continuing sound is not a picture.
    picture_at: float | None = None
    card_lost_at: float | None = None
    fps: float | None = None
    has_video: bool = False
    # When the stream's time was zero (monotonic). Progress arrives late, so the earliest value is the best.
    zero_at: float = math.inf
    # How much earlier the sound began than the picture: a copied picture waits for its first key frame.
    lead_seconds: float = math.inf
    # Time that passed without any data, and how much later than `zero_at` plus the stream's time it is because of that.
    outages: list[Outage] = field(default_factory=list)
    slipped_seconds: float = 0.0
    has_new_track: bool = False
    # What it said about its input: programmes and tracks.
    described: list[str] = field(default_factory=list)
    is_describing: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=40))
