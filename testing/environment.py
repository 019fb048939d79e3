"""A pytest plugin that is loaded before the settings: the tests' environment, and the embedded database held open."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

DEFAULTS = {
    "DATA_DIR": str(ROOT / ".cache" / "test"),
    "HTTPS": "false",
    "EMAIL_URL": "memorymail://",
    "HOUSE_TIME_ZONE": "Europe/Berlin",
    "MIN_FREE_DISK_MB": "64",
    "NODE_CALL_SECONDS": "5",
    "LOG_LEVEL": "WARNING",
}
for name, value in DEFAULTS.items():
    os.environ.setdefault(name, value)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    from config.postgres import hold_embedded_server

    (Path(os.environ["DATA_DIR"]) / "static").mkdir(parents=True, exist_ok=True)  # WhiteNoise wants to see it

    if not config.option.collectonly and not config.option.help:
        hold_embedded_server()
