"""State badges: a word, a shape and a colour, the same on every page, readable in light and dark mode."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from station.clock import house_time
from station.states import Machine

SHAPES = {"red": "■", "yellow": "●", "green": "✓", "amber": "◆", "blue": "○", "grey": "–"}


def badge(word: str, colour: str) -> SafeString:
    return format_html(
        '<span class="airlock-badge airlock-badge-{}"><span aria-hidden="true">{}</span> {}</span>',
        colour,
        SHAPES.get(colour, ""),
        word,
    )


def state_badge(row: Machine) -> SafeString:
    return badge(row.state_word, row.COLOURS.get(row.state, "grey"))


def outcome_badge(word: str, value: str, colours: Mapping[str, str]) -> SafeString:
    return badge(word, colours.get(value, "grey"))


def stamp(moment: datetime | None) -> str:
    """A time in house time with its zone, or a dash."""
    return house_time(moment) if moment else "–"


def lines(items: Iterable[Any]) -> SafeString:
    """Several short facts, one per line."""
    return format_html_join("", "<div>{}</div>", ((item,) for item in items))


def trace(text: str) -> SafeString:
    """Text of a program, line by line as it was written."""
    return format_html('<pre class="airlock-trace">{}</pre>', text)
