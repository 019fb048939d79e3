"""App registration; updates the roles after every migrate, and makes the cells of lists lighter."""

from django.apps import AppConfig, apps
from django.conf import settings
from django.db.models.signals import post_migrate


class ConfigConfig(AppConfig):
    name = "config"
    verbose_name = "Airlock"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers the system checks)
        from config.roles import sync_roles

        # Django sends post_migrate only for apps with models, and this one has none.
        post_migrate.connect(sync_roles, sender=apps.get_app_config("station"))
        if settings.HAS_PAGES:
            _make_cells_light()


def _make_cells_light() -> None:
    """Each cell of a list carries these: 26 names that static/airlock/airlock.css replaces by one."""
    from unfold.templatetags import unfold_list

    unfold_list.ROW_CLASSES[:] = ["airlock-cell"]
    unfold_list.CHECKBOX_CLASSES[:] = ["action-checkbox", "airlock-cell"]
