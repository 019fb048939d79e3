"""App registration; the roles are brought up to date after every migrate."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ConfigConfig(AppConfig):
    name = "config"
    verbose_name = "Airlock"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers the system checks)
        from config.roles import sync_roles

        post_migrate.connect(sync_roles, sender=self)
