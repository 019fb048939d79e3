"""App registration; updates the roles after every migrate."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class ConfigConfig(AppConfig):
    name = "config"
    verbose_name = "Airlock"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers the system checks)
        from config.roles import sync_roles

        # Django sends post_migrate only for apps with models, and this one has none.
        post_migrate.connect(sync_roles, sender=apps.get_app_config("station"))
