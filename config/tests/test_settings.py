"""Settings: every variable is documented, defaults are safe, and wrong values are refused at start."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from config.database_settings import LIMITS

ROOT = Path(__file__).resolve().parents[2]


def variables_in_settings() -> set[str]:
    """The first argument of every env.…("NAME") call."""
    tree = ast.parse((ROOT / "config" / "settings.py").read_text())
    limits = {f"DATABASE_LIMITS_{role.upper()}" for role in LIMITS}  # read by config/database_settings.py
    return limits | {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def test_the_example_lists_every_variable_and_no_other() -> None:
    listed = set(re.findall(r"^#([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert listed == variables_in_settings()


def test_nothing_else_reads_the_environment() -> None:
    """Settings are read in config/settings.py only (the worker, the process runtime and `up` pass theirs on)."""
    allowed = {
        "config/settings.py",
        "config/embedded_postgres.py",
        "nodes/runtimes/process.py",
        "config/management/commands/up.py",
    }
    found = set()
    for app in ("config", "station", "nodes", "scheduling", "playout", "assets"):
        for path in (ROOT / app).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if "/tests/" not in name and re.search(r"os\.(environ|getenv)", path.read_text()):
                found.add(name)
    assert found - {"config/wsgi.py"} <= allowed


def run_check(tmp_path: Path, *args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}}
    return subprocess.run(
        [sys.executable, "manage.py", "check", *args],
        env={**kept, "DATA_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("HOUSE_TIME_ZONE", "Berlin", "not an IANA time zone"),
        ("HOUSE_TIME_ZONE", "localtime", "not an IANA time zone"),
        ("SEALING_KEYS", "too-short", "A key in SEALING_KEYS is not valid"),
        ("DATABASE_URL", "sqlite:///x.db", "Airlock needs PostgreSQL"),
    ],
)
def test_wrong_values_are_refused_at_start(tmp_path: Path, name: str, value: str, complaint: str) -> None:
    """S-07."""
    done = run_check(tmp_path, "--database", "default", **{name: value})
    assert done.returncode != 0
    assert complaint in done.stderr


def test_the_production_settings_pass_the_deploy_check(tmp_path: Path) -> None:
    """S-08."""
    lines = (ROOT / "config" / "production.env").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    done = run_check(tmp_path, "--deploy", "--fail-level", "WARNING", **environment)
    assert done.returncode == 0, done.stderr


def test_a_failpoint_does_not_pass_the_deploy_check(tmp_path: Path) -> None:
    lines = (ROOT / "config" / "production.env").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    done = run_check(tmp_path, "--deploy", "--fail-level", "WARNING", FAILPOINT="start.before_call", **environment)
    assert done.returncode != 0
    assert "this process will kill itself" in done.stderr


def test_keys_are_made_once_and_only_for_the_owner(tmp_path: Path) -> None:
    from config.keys import stored_key

    key = stored_key(tmp_path, "django")
    assert stored_key(tmp_path, "django") == key
    assert len(key) >= 43
    assert (tmp_path / "keys" / "django").stat().st_mode & 0o077 == 0
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0


def test_schedulers_and_job_workers_load_no_pages_until_they_need_an_address() -> None:
    """They stay small (bench memory), and retention can still link to a playlist."""
    program = """
import sys
sys.argv = ["manage.py", "runworker"]
import django
django.setup()
import jobs.management.commands.runworker, scheduling.management.commands.runscheduler
assert not {"unfold", "ninja", "docker", "icalendar", "cryptography", "config.urls"} & set(sys.modules), "too much"
from django.urls import reverse
print(reverse("admin:playout_playlist_change", args=[7]))
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.strip() == "/admin/playout/playlist/7/change/", result.stderr
