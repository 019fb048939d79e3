"""Finds the assets that an imported playlist means: by number, original file name, path, or title.

Imported files are renamed in the library, so the names of their imports count as well. Upper and lower case and the
ways to write an accent make no difference. Several equally good matches are left to a person.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from assets.models import Asset, AssetPart, Import
from assets.models.asset import ASSET_WORDS
from playout.lists.import_formats import Wanted
from station.database.words import beginning_with, words_in

CHUNK = 2000
MOST_CANDIDATES = 20
SUGGESTED_LINES = 50
SHORTEST_WORD = 3
MOST_DIGITS = 18


@dataclass(frozen=True)
class Match:
    """The asset, or the candidates that a person may choose from."""

    asset: Asset | None = None
    candidates: list[Asset] = field(default_factory=list)
    is_ambiguous: bool = False


def find(entries: list[Wanted], assets: Any) -> list[Match]:
    """One match for each entry, among `assets`. The library is read once, whatever the number of entries."""
    names = _Names(entries)
    names.read(assets)
    chosen = [_best(entry, names) for entry in entries]
    wanted = {pk for keys in chosen for pk in keys[:MOST_CANDIDATES]}
    rows = {row.pk: row for row in assets.filter(pk__in=wanted).select_related("booking")}
    matches, suggested = [], 0
    for entry, keys in zip(entries, chosen, strict=True):
        found = [rows[pk] for pk in keys if pk in rows]
        if not found and not entry.problem and suggested < SUGGESTED_LINES:
            suggested += 1
            matches.append(Match(candidates=_similar(entry, assets)))
        elif len(keys) == 1 and found:
            matches.append(Match(found[0]))
        else:
            matches.append(Match(candidates=found, is_ambiguous=bool(found)))
    return matches


def fold(text: str) -> str:
    """The same for all spellings of a name: case, composed and decomposed accents, spaces at the ends."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold()).strip()


def _file(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return stem if dot and stem and len(ending) <= 5 else name


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in fold(path).split("/") if part)


class _Names:
    """Which assets have the names that the entries ask for: only those are kept in memory."""

    def __init__(self, entries: Iterable[Wanted]) -> None:
        self.files: dict[str, set[int]] = {}
        self.stems: dict[str, set[int]] = {}
        self.titles: dict[str, set[int]] = {}
        self.numbers: dict[str, set[int]] = {}
        self.paths: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
        for entry in entries:
            file = fold(_file(entry.path))
            self.files[file] = set()
            for text in (file, _stem(file), fold(entry.title)):
                self.stems[text] = set()
                self.titles[text] = set()
            self.numbers |= {text: set() for text in (entry.asset, entry.file) if _is_number(text)}
        for names in (self.files, self.stems, self.titles):
            names.pop("", None)

    def read(self, assets: Any) -> None:
        numbers = {text: int(text) for text in self.numbers}
        known = set(assets.filter(pk__in=numbers.values()).values_list("pk", flat=True))
        self.numbers = {text: {pk} & known for text, pk in numbers.items()}
        for pk, title in assets.values_list("pk", "title").order_by().iterator(chunk_size=CHUNK):
            self._add(self.titles, fold(title), pk)
        for pk, path in _paths_of(assets):
            file = fold(_file(path))
            if self._add(self.files, file, pk) | self._add(self.stems, _stem(file), pk):
                self.paths[pk].add(_parts(path))

    @staticmethod
    def _add(names: dict[str, set[int]], key: str, pk: int) -> bool:
        if key not in names:
            return False
        names[key].add(pk)
        return True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def _paths_of(assets: Any) -> Iterator[tuple[int, str]]:
    """The files of the library, and the names and places from which they were imported."""
    ids = assets.order_by().values("pk")
    yield from AssetPart.objects.filter(asset__in=ids).values_list("asset", "path").iterator(chunk_size=CHUNK)
    imported = Import.objects.filter(asset__in=ids).values_list("asset", "name", "source", "way")
    for pk, name, source, way in imported.order_by().iterator(chunk_size=CHUNK):
        yield pk, name
        if way != Import.Way.UPLOAD:  # an upload's path is our own
            yield pk, source


def _best(entry: Wanted, names: _Names) -> list[int]:
    """The assets of the most exact way that finds any; of several, those with the most folders and the title alike."""
    if entry.problem and not entry.name:
        return []
    if entry.asset and names.numbers.get(entry.asset):
        return list(names.numbers[entry.asset])
    file, title = fold(_file(entry.path)), fold(entry.title)
    ways = (
        names.files.get(file),
        (names.stems.get(_stem(file)) or set()) | (names.titles.get(_stem(file)) or set()),
        names.titles.get(file),
        names.titles.get(title),
        names.stems.get(title),
        names.numbers.get(entry.file),
    )
    found = next((way for way in ways if way), set())
    if len(found) > 1:
        found = _nearest(found, _parts(entry.path), names)
    if len(found) > 1:
        found = (found & names.titles.get(title, set())) or found
    return sorted(found)


def _nearest(found: set[int], wanted: tuple[str, ...], names: _Names) -> set[int]:
    """Those whose path agrees with the wanted one in the most folders, from the file up."""

    def shared(pk: int) -> int:
        return max((_same_end(path, wanted) for path in names.paths.get(pk, ())), default=0)

    most = max(map(shared, found))
    return {pk for pk in found if shared(pk) == most}


def _same_end(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for mine, theirs in zip(reversed(one), reversed(other), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _similar(entry: Wanted, assets: Any) -> list[Asset]:
    """Assets with the longest word of the title or of the file name in their title, to choose from."""
    for text in (entry.title, _stem(_file(entry.path))):
        words = sorted(words_in(text), key=len, reverse=True)
        if words and len(words[0]) >= SHORTEST_WORD:
            found = list(beginning_with(assets, ASSET_WORDS, words[:1]).order_by("-pk")[:MOST_CANDIDATES])
            if found:
                return found
    return []
