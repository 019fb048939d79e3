"""One measured figure, and the temporary database that benchmarks use."""

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Metric:
    name: str
    value: float
    unit: str
    target: str
    runs: int
    method: str


def prepare() -> Path:
    """Create a database and a data folder that are removed with this process."""
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


def bench_project() -> Any:
    """The project of everything a benchmark makes. Each group has its own database, so each creates it."""
    from station.models import Project

    return Project.objects.get_or_create(slug="bench", defaults={"name": "Bench"})[0]


def prepared_folder() -> Path:
    """The data folder of this process."""
    return Path(os.environ["DATA_DIR"])
