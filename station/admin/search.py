"""The search box of lists that grow for years: words in any order, by their beginnings, found by an index."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.db.models import F, QuerySet
from django.http import HttpRequest

from station.database.words import Words, beginning_with, either, words_in

LARGEST_ID = 2**63 - 1
# The newest ones. The page asks several questions about what was found, so it is searched once and kept as ids.
MOST_FOUND = 1000
# Gives the ids of rows that are found by a word in another table.
Elsewhere = Callable[[str], QuerySet[Any]]


class WordSearch:
    """Mix into a ModelAdmin, before its base. A number alone also finds the row with that id."""

    search_words: ClassVar[Words]  # of the table itself; one of its indexes has the same columns
    search_elsewhere: ClassVar[Sequence[Elsewhere]] = ()
    search_fields: ClassVar[Sequence[str]] = ["pk"]  # Django shows the box only if there are some
    show_full_result_count = False  # it counts the whole table for every page

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        words = words_in(search_term)
        if not words:
            return (queryset.none() if search_term.strip() else queryset), False
        # "+ 0": in the order of the primary key PostgreSQL might read the table instead of the index of words.
        found = self._find(queryset, words).order_by((F("pk") + 0).desc()).values_list("pk", flat=True)
        return queryset.filter(pk__in=list(found[:MOST_FOUND])), False

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Without the years and months above the list: for a thousand rows they take longer than the search."""
        changelist: Any = super().get_changelist_instance(request)  # type: ignore[misc]
        if changelist.query:
            changelist.date_hierarchy = None
        return changelist

    def _find(self, rows: QuerySet[Any], words: list[str]) -> QuerySet[Any]:
        """The rows that have each word, or are found elsewhere by it."""
        everything, own = rows.model._base_manager.order_by(), []
        found: list[QuerySet[Any]] = []  # sets of ids: PostgreSQL reads each by its own index, and intersects them
        for word in words:
            others = [elsewhere(word) for elsewhere in self.search_elsewhere]
            if len(words) == 1 and word.isdecimal() and int(word) <= LARGEST_ID:
                others.append(everything.filter(pk=int(word)).values("pk"))
            others = [each for each in others if each.exists()]
            if others:
                itself = beginning_with(everything, self.search_words, [word]).values("pk")
                found.append(either(itself, *others))
            else:
                own.append(word)
        if own:
            found.append(beginning_with(everything, self.search_words, own).values("pk"))
        first, *more = found
        return rows.filter(pk__in=first.intersection(*more) if more else first)
