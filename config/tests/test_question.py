"""The cost of the leader's query on every tick depends on what is due, not on what is stored."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from assets.models import Asset, Delivery, Destination
from jobs.runs.queue import job_row
from scheduling.leader.steps import due_sql
from station.clock import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.database]

STORED = 4000
READ_AT_MOST = 100
RUNS = """
INSERT INTO jobs_run (job_id, scope, run_at, key, owner, trigger, priority, turn, state, state_since_at,
    created_at, requested_by, is_exclusive, is_reentrant, attempts_allowed, attempt, attempts_forgiven, worker_name,
    orphaned_times, cancel_reason, progress_text, error_code, error, unreadable_by, errors)
SELECT %(job)s, '', %(at)s + n * interval '1 s', '', '', 'queue', 0, n, %(state)s, %(at)s, %(at)s, '', false, true, 3,
    0, 0, '', 0, '', '', '', '', '', '[]' FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture
def much(project: Any) -> None:
    """Thousands of runs in every waiting state, and thousands of finished and delivered assets."""
    now = database_now()
    later = now + timedelta(days=1)
    with connection.cursor() as cursor:
        for state in ("scheduled", "retry", "queued", "succeeded"):
            values = {"job": job_row("runs.retention").pk, "at": later, "state": state, "count": STORED}
            cursor.execute(RUNS, values)
    rows = [
        Asset(project=project, title=f"{number}", state="ready", state_since_at=now, origin="import", created_at=now)
        for number in range(STORED)
    ]
    assets = Asset.objects.bulk_create(rows)
    destination = Destination.objects.create(project=project, name="MAM", connector="folder", config={"path": "/x"})
    Delivery.objects.bulk_create(
        Delivery(
            asset=asset,
            destination=destination,
            state="failed",
            state_since_at=now,
            created_at=now,
            next_attempt_at=later,
        )
        for asset in assets
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes_of(child)


def test_no_step_scans_stored_rows_to_find_out_when_it_is_due(much: None) -> None:
    """R-01: an idle tick is cheap, however much is stored."""
    greedy: dict[str, list[tuple[str, str | None, float]]] = {}
    for path in settings.SCHEDULER_STEPS:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {due_sql(path)}")
            plan = cursor.fetchone()[0][0]["Plan"]
        read = [
            (node["Node Type"], node.get("Relation Name"), node["Actual Rows"] * node["Actual Loops"])
            for node in nodes_of(plan)
        ]
        removed = [node.get("Rows Removed by Filter", 0) for node in nodes_of(plan)]
        if max(*(rows for _, _, rows in read), *removed, 0) > READ_AT_MOST:
            greedy[path] = read
    assert greedy == {}
