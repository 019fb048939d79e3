"""Keeping what one has claimed: one statement renews every lease of a worker and tells what it lost or is to stop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

RENEW = """
    WITH mine AS (SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[], %(leases)s::float8[])
                  AS m (id, token, lease)),
    renewed AS (
        UPDATE scheduling_run r SET heartbeat_at = clock_timestamp(),
            leased_until_at = clock_timestamp() + m.lease * interval '1 second'
        FROM mine m WHERE r.id = m.id AND r.token = m.token AND r.state = 'running'
        RETURNING r.id, r.cancel_requested_at IS NOT NULL, r.cancel_reason)
    SELECT * FROM renewed"""
ALIVE = """UPDATE scheduling_jobworker SET heartbeat_at = clock_timestamp(), runs_done = %(done)s, ended_at = NULL,
           ending = '' WHERE id = %(ref)s"""


@dataclass(frozen=True)
class Held:
    """One lease: whose, by which token, for how long at a time."""

    token: UUID
    lease_seconds: float


@dataclass(frozen=True)
class Beat:
    """What a renewal told: the explicit refusals, and what people want stopped (run -> reason)."""

    lost: frozenset[int]
    cancelled: dict[int, str]


def renew(connection: Any, held: Mapping[int, Held]) -> Beat:
    """Push every lease ahead. Only an explicit refusal is a loss (J-08, J-09); a database that is away raises."""
    if not held:
        return Beat(frozenset(), {})
    values = {
        "ids": list(held),
        "tokens": [lease.token for lease in held.values()],
        "leases": [lease.lease_seconds for lease in held.values()],
    }
    rows = connection.execute(RENEW, values).fetchall()
    cancelled = {row[0]: row[2] for row in rows if row[1]}
    return Beat(frozenset(held) - {row[0] for row in rows}, cancelled)


def show_alive(connection: Any, ref: int, done: int) -> None:
    connection.execute(ALIVE, {"ref": ref, "done": done})
