"""App registration."""

from django.apps import AppConfig


class StationConfig(AppConfig):
    name = "station"
    verbose_name = "Station"
