"""Reads DATABASE_URL as libpq does, and the limits on sessions of each kind of process.

libpq itself parses the URL, so everything it knows works: several hosts, `target_session_attrs`, `options`,
`channel_binding`, a socket folder, a service.
"""

from collections.abc import Mapping
from typing import Any

import environ
import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

ENGINE = "station.database.postgresql"
SCHEMES = ("postgresql://", "postgres://", "service=")
# libpq's names of what Django keeps outside OPTIONS
OWN_PLACE = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
# A server that is gone is noticed in seconds instead of hours.
KEEPALIVES = {
    "connect_timeout": 10,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 4000,
}
# Seconds a session waits for a lock, runs one statement, and stays idle in a transaction (0: no limit). `sessions`: the
# threads of one process share a pool of at most so many (0: each thread has its own). "migrations": other commands.
LIMITS: Mapping[str, Mapping[str, float]] = {
    "leader": {"lock": 1, "statement": 10, "idle": 5, "sessions": 1},
    "steps": {"lock": 0.5, "statement": 10, "idle": 5, "sessions": 24},
    "web": {"lock": 5, "statement": 30, "idle": 30, "sessions": 0},
    "workers": {"lock": 5, "statement": 300, "idle": 60, "sessions": 0},
    "migrations": {"lock": 10, "statement": 0, "idle": 600, "sessions": 0},
}


def read_url(url: str) -> dict[str, Any]:
    """Django's settings for this URL."""
    if not url.startswith(SCHEMES):
        raise ImproperlyConfigured(
            "Airlock needs PostgreSQL 14 or later: DATABASE_URL=postgresql://user:password@host/name"
        )
    try:
        given = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError as error:
        # The message of libpq may quote a part of the URL, and so the password.
        raise ImproperlyConfigured("DATABASE_URL cannot be read. Check its parts and their %-encoding.") from error
    found: dict[str, Any] = {place: str(given.pop(name, "")) for name, place in OWN_PLACE.items()}
    if "," in found["HOST"]:
        given.setdefault("target_session_attrs", "read-write")  # of several servers, the one that takes writes
    return {"ENGINE": ENGINE, **found, "OPTIONS": given}


def add_keepalives(database: dict[str, Any]) -> dict[str, Any]:
    """Add what the URL does not say."""
    database["OPTIONS"] = {**KEEPALIVES, **database.get("OPTIONS", {})}
    return database


def read_limits(env: environ.Env) -> dict[str, dict[str, float]]:
    """The limits of each role: the defaults, changed by DATABASE_LIMITS_STEPS="lock=1,sessions=10" and the like."""
    limits = {}
    for role, defaults in LIMITS.items():
        name = f"DATABASE_LIMITS_{role.upper()}"
        try:
            pairs = (pair.split("=") for pair in env.list(name, default=[]))
            given = {limit.strip(): float(value) for limit, value in pairs}
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: write it like lock=1,statement=10,idle=5,sessions=24") from error
        if unknown := set(given) - set(defaults):
            raise ImproperlyConfigured(f"{name}: {', '.join(sorted(unknown))} is not one of {', '.join(defaults)}.")
        if any(value < 0 for value in given.values()):
            raise ImproperlyConfigured(f"{name}: a limit cannot be negative.")
        limits[role] = {**defaults, **given}
    return limits
