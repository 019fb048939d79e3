"""Renews all leases of a job worker in one statement, which also returns lost leases and requests to cancel."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.models import Run
from station.database.notify import CHANNEL

# A row that is locked by another session is neither renewed nor lost: the next heartbeat tries again.
RENEW = f"""
    WITH mine AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[], %(leases)s::float8[]) AS m (id, token, lease)),
    free AS MATERIALIZED (
        SELECT r.id, m.lease FROM jobs_run r JOIN mine m ON r.id = m.id AND r.token = m.token
        WHERE r.state = '{Run.State.RUNNING}' ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED),
    renewed AS (
        UPDATE jobs_run r SET heartbeat_at = clock_timestamp(),
            leased_until_at = clock_timestamp() + free.lease * interval '1 second'
        FROM free WHERE r.id = free.id)
    SELECT m.token, COALESCE(r.token = m.token AND r.state = '{Run.State.RUNNING}', false),
        r.cancel_requested_at IS NOT NULL, r.cancel_reason
    FROM mine m LEFT JOIN jobs_run r ON r.id = m.id"""  # noqa: S608  (our own states)
ALIVE = """UPDATE jobs_jobworker SET heartbeat_at = clock_timestamp(), runs_done = %(done)s, ended_at = NULL,
           ending = '' WHERE id = %(ref)s"""


# The leader passes over the runs every second while it knows of a running one.
WATCH = f"SELECT pg_notify('{CHANNEL}', '')"


@dataclass(frozen=True)
class Held:
    """One lease. It is identified by its token: a run may be claimed again, a token may not."""

    run_id: int
    lease_seconds: float


@dataclass(frozen=True)
class Beat:
    """The answer to a renewal: leases explicitly refused, and runs to cancel (token -> reason)."""

    lost: frozenset[UUID]
    cancelled: dict[UUID, str]


def renew(connection: Any, held: Mapping[UUID, Held]) -> Beat:
    """Extend every lease. Only an explicit refusal is a loss (J-08, J-09); an unavailable database raises."""
    if not held:
        return Beat(frozenset(), {})
    values = {
        "ids": [lease.run_id for lease in held.values()],
        "tokens": list(held),
        "leases": [lease.lease_seconds for lease in held.values()],
    }
    rows = connection.execute(RENEW, values).fetchall()
    cancelled = {token: reason for token, is_ours, is_cancelled, reason in rows if is_ours and is_cancelled}
    return Beat(frozenset(token for token, is_ours, _, _ in rows if not is_ours), cancelled)


def show_alive(connection: Any, ref: int, done: int) -> None:
    connection.execute(ALIVE, {"ref": ref, "done": done})


def ask_leader_to_watch(connection: Any) -> None:
    """Called at the first heartbeat of a run: it takes longer, so the leader must notice if this process dies."""
    connection.execute(WATCH)
