"""App registration; the jobs are declared when Django starts."""

from importlib import import_module

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "scheduling"
    verbose_name = "Recording"

    def ready(self) -> None:
        from django.conf import settings

        for module in settings.JOB_MODULES:
            import_module(module)
