"""A standby waits for the lock without losing its place (R-02)."""

import os
from typing import Any

import psycopg
import pytest

from scheduling.leader.election import Leader

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


def test_a_standby_keeps_its_place_for_longer_than_a_statement_may_take(settings: Any) -> None:
    """R-02: the limit on statements holds for the leader only."""
    settings.DATABASE_LIMITS = settings.DATABASE_LIMITS | {"leader": {"lock": 1, "statement": 0.3, "idle": 5}}
    settings.LEADER_LOCK_TRY_SECONDS = 1.0
    never, _ = os.pipe()
    first, second = Leader(), Leader()
    first.open()
    second.open()
    assert first.try_to_lead(never)
    assert second.try_to_lead(never) is False, "it waited a second, and nobody cancelled that"
    with pytest.raises(psycopg.OperationalError, match="statement timeout"):
        first.ask("pg_sleep(2)")
    first.close()
    second.close()
