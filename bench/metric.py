"""One measured figure, and the throw-away database all of them are measured on."""

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Metric:
    name: str
    value: float
    unit: str
    target: str
    runs: int
    method: str


def prepare() -> Path:
    """A database and a data folder of our own, gone with this process."""
    folder = tempfile.mkdtemp(prefix="airlock-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # registered first, so it runs after the server's stop
    os.environ.update(DATA_DIR=folder, HTTPS="false", LOG_LEVEL="ERROR", DJANGO_SETTINGS_MODULE="config.settings")
    os.environ.pop("DATABASE_URL", None)
    import django
    from django.core.management import call_command

    from config.embedded_postgres import hold_embedded_server

    hold_embedded_server()
    django.setup()
    call_command("migrate", verbosity=0)
    return Path(folder)


def prepared_folder() -> Path:
    """The data folder of this process."""
    return Path(os.environ["DATA_DIR"])
