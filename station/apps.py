"""App registration."""

from django.apps import AppConfig

from station.database.roles import MIGRATIONS, take_role


class StationConfig(AppConfig):
    name = "station"
    verbose_name = "Station"

    def ready(self) -> None:
        take_role(MIGRATIONS)  # until the process takes another role
