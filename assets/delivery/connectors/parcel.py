"""What is sent to a MAM: the facts about an asset, its files, and the key that makes a repetition harmless."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class NotDelivered(Exception):
    """The delivery failed, or its result is unknown; the text goes to the log of attempts."""


class Forgotten(NotDelivered):
    """The MAM no longer knows the ID it returned: the next attempt creates the asset again, under another key."""


# Called with the MAM's ID as soon as it is known, so that a crash afterwards does not create a second one.
Remember = Callable[[str], None]


@dataclass(frozen=True)
class PartFile:
    path: Path
    number: int
    sha256: str


@dataclass(frozen=True)
class Parcel:
    key: str
    round: int
    asset_id: int
    # The MAM's ID, if an earlier attempt received one.
    external_id: str
    # The number of this attempt in this round; 1 is the first.
    attempt: int
    facts: dict[str, Any]
    files: list[PartFile] = field(default_factory=list)
    # Called with the progress, 0 to 100. May raise to stop sending.
    on_percent: Callable[[float], None] = lambda percent: None
