"""Counts the items of a list that could not be played, and decides when a list of bad items is tried again."""

# A list without a playable item is tried again after this time; the pause doubles up to the longest one.
AGAIN_SECONDS, MOST_AGAIN_SECONDS = 5.0, 30.0


class ListFailures:
    """Used under the director's lock."""

    def __init__(self) -> None:
        self._count, self._again_at, self._again_seconds = 0, 0.0, AGAIN_SECONDS
        self._failed_since: float | None = None  # no item of the list could be played
        self._noted: set[str] = set()  # keys of the items that as-run calls bad since an item was on air

    def may_try(self, now: float) -> bool:
        return now >= self._again_at

    def is_noted(self, key: str) -> bool:
        return key in self._noted

    def note_bad(self, key: str) -> None:
        self._noted.add(key)

    def count(self, items: int, now: float) -> None:
        """Another one of that many items was skipped. After all of them, the list gets a pause."""
        self._count += 1
        if self._count >= items:
            self._failed_since = self._failed_since or now
        if self._count > items:
            self._count, self._again_at = 0, now + self._again_seconds
            self._again_seconds = min(2 * self._again_seconds, MOST_AGAIN_SECONDS)

    def note_aired(self) -> None:
        self._count, self._again_seconds, self._failed_since = 0, AGAIN_SECONDS, None
        self._noted.clear()

    def note_new_list(self) -> None:
        self._again_at, self._again_seconds, self._failed_since = 0.0, AGAIN_SECONDS, None
        self._noted.clear()

    def failed_seconds(self, now: float) -> float:
        """For how long no item of the list could be played."""
        return round(now - self._failed_since, 1) if self._failed_since else 0.0
