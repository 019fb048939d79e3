"""A pytest plugin that is loaded before the settings: sets the environment, starts the database, marks slow tests."""

import os
from pathlib import Path
from typing import Any

import pytest

from testing import arrows

# Tests that share something heavy run one after the other in one test process: engines, a browser, a whole Airlock.
# (xdist's own groups rename items, which pytest 9 does not allow.)
SHARED = {
    "docker": (
        "[docker",
        "test_docker_",
        "test_container_hardening",
        "test_remote_engines",
        "missing_image",
        "ten_recordings",
    ),
    "browser": ("test_browser",),
    "up": ("test_up",),
}

# `make quick` leaves out tests marked slow. Tests with these markers or fixtures get that mark automatically.
SLOW_MARKERS = {"docker", "browser", "crash", "paced", "alone", "signals", "night"}
SLOW_FIXTURES = {"process_node", "any_node", "scheduler", "engine_tools"}

ROOT = Path(__file__).resolve().parent.parent

DEFAULTS = {
    "DATA_DIR": str(ROOT / ".cache" / "test"),
    "HTTPS": "false",
    "EMAIL_URL": "memorymail://",
    "HOUSE_TIME_ZONE": "Europe/Berlin",
    "MIN_FREE_DISK_MB": "64",
    "LOG_LEVEL": "WARNING",
}
# Longer limits for tests that run in parallel on a busy machine. Tests that run alone have the production limits.
BUSY = {
    "NODE_CALL_SECONDS": "15",
    "MANUAL_WAIT_SECONDS": "45",
    "WORKER_ANSWER_SECONDS": "8",
    "LEADER_HEARTBEAT_SECONDS": "4",
    "LEADER_SILENCE_SECONDS": "20",
    "PLAYOUT_SILENCE_SECONDS": "12",
}
if "PYTEST_XDIST_WORKER" in os.environ:
    DEFAULTS |= BUSY
for name, value in DEFAULTS.items():
    os.environ.setdefault(name, value)
arrows.watch_import()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    from config.embedded_postgres import hold_embedded_server

    (Path(os.environ["DATA_DIR"]) / "static").mkdir(parents=True, exist_ok=True)  # WhiteNoise warns if it is missing

    if not config.option.collectonly and not config.option.help:
        hold_embedded_server()


@pytest.hookimpl(tryfirst=True)  # before -m chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow({mark.name for mark in item.iter_markers()}, set(getattr(item, "fixturenames", ()))):
            item.add_marker("slow")


def is_slow(markers: set[str], fixtures: set[str]) -> bool:
    """Whether a test starts real processes, or records or plays in real time."""
    return bool(markers & SLOW_MARKERS or fixtures & SLOW_FIXTURES)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record skipped tests: they may be why an arrow is missing. Only the process that sees all tests does so."""
    if report.skipped and "PYTEST_XDIST_WORKER" not in os.environ:
        arrows.note_skipped(report.nodeid)


def group_of(nodeid: str) -> str:
    """The name of the shared resource, or the test's id if it may run in any process."""
    for group, words in SHARED.items():
        if any(word in nodeid for word in words):
            return group
    return nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)
