"""The recorder of arrows: what our code moves is noted, in started processes, too; what a test moves is not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing import arrows
from testing.processes import ROOT, environment

CODE = """
import django
django.setup()
from django.utils import timezone
from station.alerts import raise_alert, resolve_alert
from station.alerts.raising import acknowledge
acknowledge(raise_alert("fire", "Fire", now=timezone.now()), now=timezone.now(), by="anna")
"""


def run(code: str, folder: Path | None) -> None:
    """A process as tests start them, with or without somebody who wants to know."""
    extra = {"DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONPATH": f"{arrows.SITE}{os.pathsep}{ROOT}"}
    wanted = {**environment(**extra), arrows.FOLDER: str(folder or "")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=wanted, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.django_db(transaction=True)
def test_a_process_that_a_test_starts_notes_its_arrows(tmp_path: Path) -> None:
    run(CODE, tmp_path / "arrows")
    assert arrows.taken(tmp_path / "arrows") == {("alert", "open", "acknowledged")}


@pytest.mark.django_db(transaction=True)
def test_without_a_folder_nothing_is_wrapped(tmp_path: Path) -> None:
    """Production names no folder: its Machine is its own."""
    check = 'assert Machine.move.__module__ == Machine.save.__module__ == "station.states"\n'
    check += "assert not hasattr(Machine.move, '__wrapped__')\n"
    run(f"import django; django.setup(); from station.states import Machine\n{check}", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("scheduling/recording/lifecycle.py", True),
        ("scheduling/tests/test_lifecycle.py", False),
        ("testing/fleet.py", False),
        ("conftest.py", False),
    ],
)
def test_a_move_that_a_test_makes_itself_proves_nothing(path: str, counts: bool) -> None:
    assert arrows.is_of_a_test(str(ROOT / path)) is not counts


@pytest.mark.parametrize(
    ("skipped", "ci", "code"), [(False, "", 1), (True, "", 0), (True, "true", 1), (False, "true", 1)]
)
def test_a_missing_arrow_fails_unless_tiers_were_skipped_outside_of_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipped: bool, ci: str, code: int
) -> None:
    monkeypatch.setenv(arrows.FOLDER, str(tmp_path))
    monkeypatch.setenv("CI", ci)
    (tmp_path / "1.arrows").write_text("alert open acknowledged\n")
    if skipped:
        arrows.note_skipped("nodes/tests/test_x.py::test_y[docker]")
    said: list[str] = []

    assert arrows.main(said.append) == code

    assert "  alert: acknowledged -> resolved" in said
    assert "  alert: open -> acknowledged" not in said


def test_all_arrows_taken_is_a_sentence_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.apps import apps

    from station.states import Machine

    machines: list[Any] = [model for model in apps.get_models() if issubclass(model, Machine)]
    known = sorted(arrows.arrows_of(machines))
    (tmp_path / "1.arrows").write_text("".join(f"{' '.join(arrow)}\n" for arrow in known))
    monkeypatch.setenv(arrows.FOLDER, str(tmp_path))
    said: list[str] = []
    assert arrows.main(said.append) == 0
    assert said == [f"All {len(known)} arrows of the state machines were taken."]
