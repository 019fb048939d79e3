"""The as-run log: one record for each item on air, and the answer to GET /asrun."""

from dataclasses import dataclass
from datetime import datetime


@dataclass
class AsRunRecord:
    """One item on air, from start to end. A later record with the same generation and `seq` replaces it."""

    generation: int
    seq: int
    key: str
    kind: str
    title: str
    started_at: datetime
    asset: int | None = None
    ended_at: datetime | None = None
    from_seconds: float = 0.0
    frames: int = 0
    repeats: int = 0
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class AsRunPage:
    """The records that changed after a revision, the oldest first. Ask again with `revision` until `is_all`."""

    owner: str
    generation: int
    revision: int
    is_all: bool
    entries: tuple[AsRunRecord, ...]
