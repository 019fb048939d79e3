"""Full-text search by the beginnings of words, answered by an index.

PostgreSQL's trigram extension is not part of the embedded server, so the search uses what every server has: a GIN index
on `to_tsvector` with prefix queries. A word is found by its beginning, not by its middle.
"""

import re
from collections.abc import Sequence
from typing import Any

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import Func, QuerySet

MOST_WORDS = 8


class Words(Func):
    """The words of these text columns of one table. Used by an index and, with the same columns, by its queries.

    PostgreSQL would keep "/news/cam-1_evening.ts" as one word, so the characters inside such names become spaces.
    """

    template = "to_tsvector('simple'::regconfig, translate(%(expressions)s, '/.-_:@?=&+~#<>;', '               '))"
    arg_joiner = " || ' ' || "
    output_field = SearchVectorField()


def words_in(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)[:MOST_WORDS]


def beginning_with(rows: QuerySet[Any], columns: Words, words: Sequence[str]) -> QuerySet[Any]:
    """The rows with all these words, or words that begin with them."""
    query = SearchQuery(" & ".join(f"{word}:*" for word in words), config="simple", search_type="raw")
    found: QuerySet[Any] = rows.alias(found_words=columns).filter(found_words=query)
    return found


def named(rows: QuerySet[Any], column: str, word: str) -> QuerySet[Any]:
    """For a small table without an index: the rows with a word that begins with this one."""
    return rows.filter(**{f"{column}__iregex": rf"(^|[\W_]){word}"})


def either(*found: QuerySet[Any]) -> QuerySet[Any]:
    """All these ids, for `pk__in`. Each part is found by its own index; an OR would read the whole table."""
    first, *others = found
    return first.union(*others, all=True) if others else first
