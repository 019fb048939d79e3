"""App registration. Imports the modules that declare jobs when Django starts."""

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"

    def ready(self) -> None:
        for module in settings.JOB_MODULES:
            import_module(module)
