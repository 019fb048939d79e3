"""Strangers: sessions that are no part of Airlock and keep random rows locked in an open transaction."""

import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from django.apps import apps
from django.db.models import Model

from nodes.models import Node, Workload
from scheduling.models import Booking
from station.models import Project
from station.states import sql_list
from testing.chaos.verdict import Disturbance
from testing.chaos.watcher import now

OURS = ("assets", "jobs", "nodes", "playout", "scheduling", "station")
ROWS = 3
# Every insert of a row that refers to one of these takes a lock that FOR UPDATE refuses, as long as it is held; a plain
# UPDATE of them does not.
SHARED_PARENTS = (Node, Project)


@dataclass
class Stranger:
    connection: "psycopg.Connection[Any]"
    table: str
    owners: list[str]
    locked_at: datetime

    def leave(self) -> list[Disturbance]:
        """End the transaction. Bookings whose own rows were locked may have waited."""
        self.connection.close()
        return [Disturbance(self.locked_at, now(), f"locked in {self.table}", owner) for owner in self.owners]


def lock_rows(url: str, choice: random.Random) -> Stranger:
    """Lock some rows of a random table that has any; every second time, of bookings that are not over."""
    tables = [model for app in OURS for model in apps.get_app_config(app).get_models(include_auto_created=True)]
    choice.shuffle(tables)
    if choice.random() < 0.5:
        tables.insert(0, Booking)
    connection = psycopg.connect(url, connect_timeout=2, application_name="psql")
    try:
        connection.execute("SELECT setseed(%s)", [choice.random()])
        for model in tables:
            if pks := lock_some(connection, model):
                return Stranger(connection, model._meta.db_table, owners_of(connection, model, pks), now())
        raise AssertionError("every table is empty")
    except BaseException:  # leave no session with locks open, not even after Ctrl-C
        connection.close()
        raise


def lock_some(connection: "psycopg.Connection[Any]", model: type[Model]) -> list[Any]:
    """The keys of the locked rows."""
    table, key = model._meta.db_table, model._meta.pk.column
    live = f"WHERE state IN ({sql_list(sorted(model.live_states()))})" if issubclass(model, Booking | Workload) else ""
    strength = "NO KEY UPDATE" if model in SHARED_PARENTS else "UPDATE"
    chosen = f'SELECT "{key}" FROM {table} {live} ORDER BY random() LIMIT {ROWS}'
    rows = connection.execute(
        f'SELECT "{key}" FROM {table} WHERE "{key}" IN ({chosen}) FOR {strength} SKIP LOCKED'
    ).fetchall()
    return [row[0] for row in rows]


def owners_of(connection: "psycopg.Connection[Any]", model: type[Model], pks: list[Any]) -> list[str]:
    if model is Booking:
        return [f"booking:{pk}" for pk in pks]
    if model is Workload:
        rows = connection.execute("SELECT owner FROM nodes_workload WHERE id = ANY(%s)", [pks]).fetchall()
        return [row[0] for row in rows]
    return []
