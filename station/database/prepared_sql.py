"""Statements the scheduler and the workers repeat all day, prepared on the server: planned once, not each time.

For those processes only: they refuse a pooler in transaction mode, behind which a prepared statement is not there.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from django.db import connection


def fetch_prepared(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of one statement on Django's own connection, inside whatever transaction it is in."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(statement, values, prepare=True)
        return cursor.fetchall()
