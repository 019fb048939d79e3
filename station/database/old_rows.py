"""Deletes old rows in small batches, so that a table of ten million rows is cleaned without long locks.

Rows are found along the primary key, oldest first: no index is needed beside it. Each batch is a transaction of its
own. A row that somebody else has locked is left for the next time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models, transaction

BATCH = 1000


@dataclass(frozen=True)
class OldRows:
    """What may be deleted: `rows` whose column `made` is older than a limit, with the rows that refer to them."""

    rows: "models.QuerySet[Any]"
    made: str
    # The models that refer to it, with their foreign key. The database does not cascade.
    children: Sequence[tuple[type[models.Model], str]] = ()
    # Rows are added in the order of `made`, and all of them may be deleted: the search ends at the first young batch.
    # Other tables are searched to their end; they are short once they are cleaned regularly.
    is_log: bool = False

    def delete(self, older_than: datetime, on_batch: Callable[[int], object]) -> int:
        """Delete them; `on_batch` is called after each batch, with the number so far, and may raise."""
        after, count = 0, 0
        while pks := self._next(after, older_than):
            count += self._delete([pk for pk, is_old in pks if is_old])
            after = pks[-1][0]
            on_batch(count)
        return count

    def _next(self, after: int, older_than: datetime) -> list[tuple[int, bool]]:
        """The next batch of ids, each with whether it is old; nothing at the end."""
        old = {f"{self.made}__lt": older_than}
        if not self.is_log:
            found = self.rows.filter(pk__gt=after, **old).order_by("pk").values_list("pk", flat=True)[:BATCH]
            return [(pk, True) for pk in found]
        rows = self.rows.filter(pk__gt=after).order_by("pk").values_list("pk", self.made)[:BATCH]
        batch = [(pk, moment < older_than) for pk, moment in rows]
        return batch if any(is_old for _, is_old in batch) else []

    def _delete(self, pks: list[int]) -> int:
        with transaction.atomic():
            free = self.rows.filter(pk__in=pks).select_for_update(skip_locked=True, of=("self",))
            chosen = list(free.values_list("pk", flat=True))
            for child, column in self.children:
                _delete_at_once(child._base_manager.filter(**{f"{column}__in": chosen}))
            _delete_at_once(self.rows.model._base_manager.filter(pk__in=chosen))
        return len(chosen)


def _delete_at_once(rows: "models.QuerySet[Any]") -> None:
    """One DELETE. `QuerySet.delete` would first read every row and look for those that refer to it."""
    rows._raw_delete(rows.db)
