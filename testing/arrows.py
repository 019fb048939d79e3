"""Checks that the tests take every arrow of every MOVES table, through the code of the apps.

If ARROWS_DIR names a folder (`make test` sets it), `Machine.move` and `Machine.move_rows` are wrapped in the test
processes and in every Python process they start; each process writes each arrow once, to a file of its own. An arrow
that a test takes by calling `move` itself does not count. `python -m testing.arrows` then compares the files with the
MOVES tables. Production never imports this module.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

FOLDER = "ARROWS_DIR"
ROOT = Path(__file__).resolve().parent.parent
SITE = Path(__file__).resolve().parent / "arrows_site"
WATCHED = "station.states"
SKIPPED = "skipped"
# Test code: a move made there proves nothing about the apps.
NOT_OURS = ("tests", "testing", "bench", "conftest.py")

Arrow = tuple[str, str, str]

_noted: set[Arrow] = set()


class _Watcher(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook: finds `station.states` as usual, and wraps its Machine once it is loaded."""

    def __init__(self) -> None:
        self._real: importlib.abc.Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != WATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert self._real is not None
        self._real.exec_module(module)
        wrap(module.Machine)


def watch_import() -> None:
    """If ARROWS_DIR is set, record arrows in this process and in the processes it starts."""
    if not os.environ.get(FOLDER) or any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        return
    assert WATCHED not in sys.modules, "too late: station.states is already loaded"
    sys.meta_path.insert(0, _Watcher())
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(SITE) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), *paths]))


def wrap(machine: Any) -> None:
    """Record each move that took place."""
    move, move_rows = machine.move, machine.move_rows.__func__

    @functools.wraps(move)
    def noting_move(self: Any, to: str, **how: Any) -> bool:
        old = self.state
        is_done: bool = move(self, to, **how)
        if is_done:
            note(self._meta.model_name, old, to, sys._getframe(1))
        return is_done

    @functools.wraps(move_rows)
    def noting_rows(cls: Any, pks: Sequence[int], old: str, to: str, **how: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = move_rows(cls, pks, old, to, **how)
        if rows:
            note(cls._meta.model_name, old, to, sys._getframe(1))
        return rows

    rows_for_class: Any = noting_rows
    machine.move, machine.move_rows = noting_move, classmethod(rows_for_class)


def note(machine: str, old: str, new: str, caller: FrameType | None) -> None:
    arrow = (machine, str(old), str(new))
    if arrow in _noted:
        return
    while caller is not None and caller.f_code.co_filename.endswith("station/states.py"):
        caller = caller.f_back  # move_batch
    if caller is None or is_of_a_test(caller.f_code.co_filename):
        return
    _noted.add(arrow)
    _append(f"{os.getpid()}.arrows", " ".join(arrow))


def is_of_a_test(filename: str) -> bool:
    path = Path(filename)
    parts = path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else ()
    return any(part in NOT_OURS for part in parts)


def _append(name: str, line: str) -> None:
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as file:
        file.write(line + "\n")


def note_skipped(test: str) -> None:
    if os.environ.get(FOLDER):
        _append(SKIPPED, test)


def taken(folder: Path) -> set[Arrow]:
    lines = [line.split() for path in folder.glob("*.arrows") for line in path.read_text().splitlines()]
    return {(machine, old, new) for machine, old, new in lines}


def arrows_of(machines: Iterable[Any]) -> set[Arrow]:
    return {
        (machine._meta.model_name, str(old), str(new))
        for machine in machines
        for old, news in machine.MOVES.items()
        for new in news
    }


def main(say: Callable[[str], None] = print) -> int:
    """0 if every arrow was taken. If tests were skipped and CI is not set, missing arrows are only a warning."""
    import testing.environment  # noqa: F401  (the tests' environment, before the settings)

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django
    from django.apps import apps

    django.setup()
    from station.states import Machine

    folder = Path(os.environ.get(FOLDER) or ROOT / ".cache" / "arrows")
    known = arrows_of(model for model in apps.get_models() if issubclass(model, Machine))
    missing = sorted(known - taken(folder))
    if not missing:
        say(f"All {len(known)} arrows of the state machines were taken.")
        return 0
    say(f"{len(missing)} of {len(known)} arrows of the state machines were taken by no test:")
    for machine, old, new in missing:
        say(f"  {machine}: {old} -> {new}")
    skipped = folder / SKIPPED
    if skipped.exists() and os.environ.get("CI") != "true":
        say(f"Only a warning: {len(skipped.read_text().splitlines())} tests were skipped, and those may take them.")
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
