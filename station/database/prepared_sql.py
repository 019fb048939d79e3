"""Prepared statements for the scheduler and the job workers, planned once by the server.

Only for these processes: they refuse a pooler in transaction mode, which loses prepared statements.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from django.db import connection


def fetch_prepared(statement: str, values: Mapping[str, Any], *, is_prepared: bool = True) -> list[tuple[Any, ...]]:
    """The rows of one statement on Django's connection, inside its current transaction."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(statement, values, prepare=is_prepared)
        return cursor.fetchall()
