"""Stores the statuses of many media workers with one statement."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DataError, connection

from nodes.models import Workload
from worker.wire import codec
from worker.wire.status import WorkerStatus

logger = logging.getLogger(__name__)

State = Workload.State

# A row that somebody else has locked is left out: its next status comes soon. A source with sound only has no frames,
# so bytes count as progress too.
STORE = f"""
    WITH told AS (
        SELECT * FROM unnest(%(pks)s::bigint[], %(progress)s::jsonb[], %(frames)s::bigint[], %(bytes)s::bigint[])
            AS told (id, progress, frames, bytes)
    ), free AS MATERIALIZED (
        SELECT id FROM nodes_workload WHERE id = ANY(%(pks)s::bigint[]) AND state = '{State.RUNNING}'
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE nodes_workload AS w SET
        heartbeat_at = clock_timestamp(),
        missed_looks = 0,
        progress = told.progress,
        deadline_at = clock_timestamp() + make_interval(secs => %(deadline)s),
        progress_at = CASE WHEN w.progress_at IS NULL OR told.frames > COALESCE((w.progress->>'frames')::bigint, 0)
            OR told.bytes > COALESCE((w.progress->>'bytes')::bigint, 0) THEN clock_timestamp() ELSE w.progress_at END
    FROM told JOIN free USING (id) WHERE w.id = told.id
    RETURNING w.id"""  # noqa: S608  (our own states)


@dataclass(frozen=True)
class Heartbeat:
    pk: int
    status: WorkerStatus


def store(heartbeats: Sequence[Heartbeat]) -> set[int]:
    """Returns the ids of the rows that were written. A status that the database refuses does not hold up the others."""
    if not heartbeats:
        return set()
    try:
        return _write(heartbeats)
    except DataError as error:
        if len(heartbeats) == 1:
            logger.error("A status cannot be stored. workload=%s error=%s", heartbeats[0].pk, str(error).strip())
            return set()
        return set().union(*(store([each]) for each in heartbeats))


def _write(heartbeats: Sequence[Heartbeat]) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            STORE,
            {
                "pks": [each.pk for each in heartbeats],
                # PostgreSQL's JSON has no character 0, which may come from ffmpeg's output.
                "progress": [json.dumps(codec.encode(each.status)).replace("\\u0000", "") for each in heartbeats],
                "frames": [each.status.frames for each in heartbeats],
                "bytes": [each.status.bytes for each in heartbeats],
                "deadline": Workload.DEADLINES[State.RUNNING].total_seconds(),
            },
        )
        return {row[0] for row in cursor.fetchall()}
