"""App registration."""

from django.apps import AppConfig


class PlayoutConfig(AppConfig):
    name = "playout"
    verbose_name = "Playout"
