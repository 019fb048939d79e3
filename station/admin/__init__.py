"""Admin pages of the station: people, projects, alerts, audit."""

from station.admin import alerts, people, projects, tokens

__all__ = ["alerts", "people", "projects", "tokens"]
