"""The list of a channel: its items in order, with absolute times, and the current position.

Paths are relative to the media folder.
"""

from dataclasses import dataclass
from datetime import datetime

ASSET, GROWING, LIVE, SLATE = KINDS = ("asset", "growing", "live", "slate")
MOST_ITEMS = 5000


@dataclass(frozen=True)
class Item:
    """One line of the list. The source of a live item is secret, so it is sent beside the list, by the item's key."""

    key: str
    kind: str
    title: str = ""
    asset: int | None = None
    file: str = ""
    journal: str = ""  # of a recording that is still growing
    in_seconds: float = 0.0
    seconds: float | None = None  # None: until its end
    streams: str = "av"
    fixed_at: tuple[datetime, ...] = ()
    is_cut: bool = True
    max_late_seconds: float | None = None
    part_of: str = ""  # of a later part of a recording: the key of its first part
    gain_db: float = 0.0  # how much louder it is played

    def problem(self) -> str:
        return "" if self.kind in KINDS else f"kind must be one of {', '.join(KINDS)}"


@dataclass(frozen=True)
class Rundown:
    """`version` identifies the content. `begins_at`: the first item starts at that time (a list for a day)."""

    version: str
    items: tuple[Item, ...]
    is_loop: bool = False
    begins_at: datetime | None = None
    # The list that replaces this one at that time, even if the control plane is not reachable then.
    following: "Rundown | None" = None
    following_at: datetime | None = None

    def problem(self) -> str:
        if len(self.items) > MOST_ITEMS:
            return f"more than {MOST_ITEMS} items"
        if len({item.key for item in self.items}) != len(self.items):
            return "two items have the same key"
        if self.following is not None and self.following_at is None:
            return "following_at is missing"
        return ""


@dataclass(frozen=True)
class Place:
    """The position of a channel: `offset_seconds` into the item at the time `at`."""

    key: str
    offset_seconds: float
    at: datetime
    is_paused: bool = False
