"""Reading as-run entries while a user moves the channel does not deadlock."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from nodes.models import Node, Workload
from playout.asrun import collection
from playout.models import AsRunEntry, Channel
from station.clock import database_now
from testing.waiting import wait_until
from worker.wire.asrun import AsRunPage, AsRunRecord

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

WAITING = """SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"""


BEGAN = datetime(2026, 11, 17, 20, tzinfo=UTC)


def line(seq: int, ended_at: datetime | None) -> AsRunRecord:
    reason = "played" if ended_at else ""
    return AsRunRecord(1, seq, "", "slate", "Slate", started_at=BEGAN, ended_at=ended_at, frames=25, reason=reason)


def is_somebody_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # otherwise a transaction sees the old snapshot
        cursor.execute(WAITING)
        return bool(cursor.fetchone()[0])


def test_a_move_by_hand_and_reading_as_run_do_not_deadlock(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-10, P-11: both lock the channel first and its as-run entries second."""
    now = database_now()
    node = Node.objects.create(name="n", address="process", media_dir="/m", state="up")
    channel = Channel.objects.create(name="One", project=project)
    AsRunEntry.objects.create(channel=channel, generation=1, seq=1, kind="slate", title="Slate", started_at=now)
    workload = Workload(owner=channel.owner, generation=1, node=node, progress={"asrun_revision": 3})
    entries = (line(1, BEGAN + timedelta(seconds=1)), line(2, None))
    told = AsRunPage(channel.owner, 1, revision=3, is_all=True, entries=entries)
    monkeypatch.setattr(collection, "fetch", lambda workload, path, kind: told)
    faults: list[Exception] = []

    def read() -> None:
        try:
            collection.collect(Channel.objects.get(pk=channel.pk), workload)
        except Exception as fault:  # noqa: BLE001  reported by the assertion below
            faults.append(fault)
        finally:
            connection.close()

    reader = threading.Thread(target=read)
    with transaction.atomic():
        Channel.objects.filter(pk=channel.pk).update(restart_count=1)
        reader.start()
        wait_until(is_somebody_waiting, 20, "the reader waits for the channel")
        collection.close_open(channel, now, "moved", "by hand")
    reader.join(60)
    assert faults == []
    assert [entry.seq for entry in AsRunEntry.objects.filter(ended_at=None)] == [2]
