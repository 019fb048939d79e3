"""SHA-256 of files: of each file, and of all of them concatenated."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Sums:
    each: list[str]
    whole: str


def of_files(paths: Sequence[Path], on_percent: Callable[[float], None] = lambda percent: None) -> Sums:
    """Reads every byte once. `on_percent` may raise to stop."""
    total = sum(path.stat().st_size for path in paths) or 1
    whole, done, each = hashlib.sha256(), 0, []
    for path in paths:
        one = hashlib.sha256()
        with path.open("rb") as handle:
            while block := handle.read(BLOCK_BYTES):
                one.update(block)
                whole.update(block)
                done += len(block)
                on_percent(min(99.0, 100 * done / total))
        each.append(one.hexdigest())
    return Sums(each, whole.hexdigest())
