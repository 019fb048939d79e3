"""What is handed over: the facts about an asset, its files, and the key that makes a repetition harmless."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class NotDelivered(Exception):
    """It was not handed over, or nobody knows; the text goes to the log of attempts."""


class Forgotten(NotDelivered):
    """They no longer know the number they gave: it is created anew, under another key."""


# Called with their number as soon as it is known, so that a crash after it does not order a second one.
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
    # Their number, if an earlier attempt got that far.
    external_id: str
    # How many attempts of this round there were, this one included.
    attempt: int
    facts: dict[str, Any]
    files: list[PartFile] = field(default_factory=list)
    # How far it has come, 0 to 100; may raise to end it.
    on_percent: Callable[[float], None] = lambda percent: None
