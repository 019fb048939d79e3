"""SQL takes the names of states from the State classes: no statement outlives a state."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps

from station.states import Machine

ROOT = Path(__file__).resolve().parents[2]
APPS = ("config", "playout", "assets", "scheduling", "jobs", "nodes", "station")
SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|WHERE|CASE)\b|\bstate\s*(=|<>|!=|IN\b)")
NAMES = sorted({str(state) for model in apps.get_models() if issubclass(model, Machine) for state in model.State})
LITERAL = re.compile("'(" + "|".join(NAMES) + ")'")


def sources() -> list[Path]:
    paths = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    return [path for path in paths if not {"tests", "migrations"} & set(path.relative_to(ROOT).parts)]


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Each string of a module with its line; of an f-string only what is written out."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in inside | docstrings:
            yield node.lineno, str(node.value)


def literals(source: str) -> list[str]:
    return [
        f"line {line}: {text.strip()[:80]}" for line, text in texts(source) if SQL.search(text) and LITERAL.search(text)
    ]


def test_no_sql_of_ours_spells_a_state_out() -> None:
    """Point for point what the State classes say; migrations keep what they said on their day."""
    found = {str(path.relative_to(ROOT)): literals(path.read_text()) for path in sources()}
    assert len(found) > 100, "the sources are where they were"
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("SQL = \"SELECT id FROM jobs_run WHERE state = 'queued'\"", True),
        ("GUARD = \"state IN ('planned', 'armed')\"", True),
        ('SQL = f"""UPDATE {table} SET state = \'running\'"""', True),
        ("SQL = f\"SELECT id FROM jobs_run WHERE state = '{State.QUEUED}'\"", False),
        ("TEXT = \"the run is 'queued'\"", False),
        ('"""SELECT in a docstring about state = \'queued\'."""', False),
    ],
)
def test_the_reader_knows_sql_from_prose(source: str, is_found: bool) -> None:
    assert bool(literals(source)) is is_found
