"""Old rows are deleted by jobs, in batches, without waiting for anybody's lock (J-29)."""

import threading
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection

from assets.models import Asset, AssetEvent, Delivery, DeliveryAttempt, Destination
from config import retention
from jobs.definitions.job_decorator import registry
from jobs.definitions.run_context import RunContext
from nodes.models import Node, Port, Reservation, Workload, WorkloadEvent
from playout.models import AsRunEntry, Channel, Recovery
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.database import old_rows
from station.models import Alert, AlertDelivery, AlertEvent, AlertRoute, AuditEntry
from station.sealing import seal

pytestmark = [pytest.mark.django_db, pytest.mark.database]

OURS = {"station", "nodes", "jobs", "scheduling", "assets", "playout", "config"}
# Tables that no job of config/retention.py cleans, and why they do not grow without end.
OTHERWISE = {
    "deleted with the row they belong to": {
        "WorkloadEvent", "AlertEvent", "AlertDelivery", "RunEvent", "AssetPart", "AssetStep", "ChannelOutput",
        "PlaylistItem", "Membership", "JobCursor",
    },
    "jobs/runs/retention.py deletes them": {"Run", "JobWorker", "Scheduler"},
    "set up by people": {
        "Project", "ApiToken", "AlertRoute", "Node", "Port", "Recorder", "Schedule", "CalendarFeed", "Channel",
        "Playlist", "Destination", "RetentionRule", "WatchFolder", "Job", "AdmittedMachine",
    },
    "one row": {"Installation", "Leadership"},
    "one row for each recording or file, kept as the record of it": {"Booking", "Asset", "Delivery", "Import"},
}  # fmt: skip


@pytest.fixture
def run() -> RunContext:
    return RunContext(0, "test", "", 1, "manual", None, uuid.uuid4())


@pytest.fixture
def long_ago() -> datetime:
    return database_now() - timedelta(days=5000)


def clean(name: str, run: RunContext) -> Any:
    [table] = [table for table in retention.TABLES if table.name == name]
    return retention.clean(table, run)["deleted"]


def audit(at: datetime, count: int) -> None:
    AuditEntry.objects.bulk_create(
        [AuditEntry(at=at, who="anna", what="start", subject="recorder:1", subject_name="A") for _ in range(count)]
    )


def test_every_table_is_cleaned_or_has_a_reason() -> None:
    """J-29: a new table that nobody cleans fails here."""
    cleaned = {old.rows.model.__name__ for table in retention.TABLES for old in table.rows()}
    named = {name for names in OTHERWISE.values() for name in names}
    every = {model.__name__ for model in apps.get_models() if model._meta.app_label in OURS}

    assert cleaned & named == set()
    assert every == (cleaned | named) - {"LogEntry"}


def test_each_table_has_a_job_that_runs_every_day() -> None:
    """J-29."""
    for table in retention.TABLES:
        spec = registry.get(f"{table.name}.retention")
        assert spec is not None
        assert spec.when is not None
        assert table.days >= 30
    kept = {table.name: table.days for table in retention.TABLES}
    assert min(kept["asrun"], kept["audit"]) == max(kept.values()) >= 10 * 365, "as-run and audit are kept longest"


def test_ten_batches_are_deleted_and_young_rows_stay(
    run: RunContext, long_ago: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-29: never more than one batch in a statement."""
    audit(long_ago, 10_500)
    audit(database_now(), 30)
    sizes: list[int] = []
    real = old_rows.OldRows._delete
    monkeypatch.setattr(old_rows.OldRows, "_delete", lambda self, pks: sizes.append(len(pks)) or real(self, pks))

    assert clean("audit", run) == 10_500
    assert clean("audit", run) == 0

    assert AuditEntry.objects.count() == 30
    assert max(sizes) == old_rows.BATCH


def test_nothing_is_deleted_with_0_days(run: RunContext, long_ago: datetime, settings: Any) -> None:
    """J-29."""
    settings.AUDIT_KEPT_DAYS = 0
    audit(long_ago, 3)
    [table] = [table for table in retention.TABLES if table.name == "audit"]

    assert "nothing is deleted" in retention.clean(table, run)["note"]

    assert AuditEntry.objects.count() == 3


@pytest.fixture
def node() -> Node:
    return Node.objects.create(name="n", address="process", media_dir="/m", state="up")


def workload(node: Node, owner: str, generation: int, at: datetime, **fields: Any) -> Workload:
    given = {"state": Workload.State.EXITED, "removed_at": at, "secrets_sealed": seal({"token": "t"}), **fields}
    made = Workload.objects.create(
        owner=owner, generation=generation, node=node, name=f"{owner}-{generation}", program="capture",
        control_port=9600, created_at=at, state_since_at=at, **given,
    )  # fmt: skip
    made.events.create(at=at, old="", new=made.state, by="scheduler")
    return made


def test_ended_workloads_go_but_a_channel_keeps_its_last_generation(
    run: RunContext, long_ago: datetime, node: Node
) -> None:
    """J-29: as-run entries are told apart by generation, so a channel must never count from 1 again."""
    for owner in ("booking:1", "channel:1"):
        for generation in (1, 2, 3):
            workload(node, owner, generation, long_ago)
    workload(node, "booking:2", 1, long_ago, state=Workload.State.LOST, removed_at=None)
    workload(node, "booking:3", 1, database_now())

    assert clean("workloads", run) == 5

    left = set(Workload.objects.values_list("owner", "generation"))
    assert left == {("channel:1", 3), ("booking:2", 1), ("booking:3", 1)}
    assert WorkloadEvent.objects.count() == 3


def test_a_removed_workload_keeps_its_secrets_for_a_day(run: RunContext, long_ago: datetime, node: Node) -> None:
    """J-29, S-05: its token and keys are of no use any more."""
    workload(node, "channel:1", 1, long_ago)
    workload(node, "channel:1", 2, database_now())
    workload(node, "channel:2", 1, long_ago, removed_at=None)

    assert retention.forget_secrets(run)["secrets"] == 1

    assert set(Workload.objects.exclude(secrets_sealed="").values_list("owner", "generation")) == {
        ("channel:1", 2),
        ("channel:2", 1),
    }


def test_alerts_go_with_their_history_and_messages_and_open_ones_stay(run: RunContext, long_ago: datetime) -> None:
    """J-29."""
    AlertRoute.objects.create(name="desk", channel="mail", target="desk@tv.example", min_severity=10)
    raise_alert("open", "Open since long ago", now=long_ago)
    raise_alert("over", "Over", now=long_ago)
    resolve_alert("over", now=long_ago)

    assert clean("alerts", run) == 1

    assert list(Alert.objects.values_list("key", flat=True)) == ["open"]
    assert (AlertEvent.objects.count(), AlertDelivery.objects.count()) == (0, 1)


def test_history_delivery_log_reservations_and_asrun(
    run: RunContext, long_ago: datetime, node: Node, project: Any
) -> None:
    """J-29: what is open or unfinished stays, however old."""
    asset = Asset.objects.create(project=project, title="A", origin="import", state="ready", created_at=long_ago)
    for at in (long_ago, database_now()):
        asset.events.create(at=at, old="", new="ready", by="scheduler")
    for number, state in enumerate((Delivery.State.DELIVERED, Delivery.State.FAILED)):
        to = Destination.objects.create(name=f"MAM {number}", project=project)
        delivery = Delivery.objects.create(asset=asset, destination=to, state=state, created_at=long_ago)
        DeliveryAttempt.objects.create(delivery=delivery, number=1, began_at=long_ago)
    port = Port.objects.create(node=node, kind="decklink", number=1)
    for released_at in (long_ago, None):
        Reservation.objects.create(port=port, owner="x:1", holder="x", starts_at=long_ago, released_at=released_at)
    channel = Channel.objects.create(name="One", project=project, state="off_air")
    for seq, ended_at in enumerate((long_ago, None)):
        AsRunEntry.objects.create(channel=channel, generation=1, seq=seq, started_at=long_ago, ended_at=ended_at)
        Recovery.objects.create(
            channel=channel, kind="restart", reason="x", by="x", lost_at=long_ago, noticed_at=long_ago, back_at=ended_at
        )

    assert {name: clean(name, run) for name in ("events", "delivery_log", "reservations", "asrun")} == {
        "events": 2,
        "delivery_log": 1,
        "reservations": 1,
        "asrun": 1,
    }
    assert AssetEvent.objects.count() == 1
    assert DeliveryAttempt.objects.get().delivery.state == Delivery.State.FAILED
    assert Reservation.objects.get().released_at is None
    assert AsRunEntry.objects.get().ended_at is None


@pytest.fixture
def stranger(transactional_db: Any) -> Iterator[psycopg.Connection[Any]]:
    """A session of somebody else, with a transaction that stays open."""
    parameters = connection.get_connection_params()
    known = {name: parameters[name] for name in ("dbname", "user", "password", "host", "port") if name in parameters}
    with psycopg.connect(**known) as session:
        yield session
        session.rollback()


@pytest.mark.django_db(transaction=True)
def test_a_locked_row_is_left_for_the_next_time(
    stranger: psycopg.Connection[Any], run: RunContext, long_ago: datetime
) -> None:
    """J-29: one row that somebody holds delays neither the job nor the other rows."""
    audit(long_ago, 2500)
    held = AuditEntry.objects.order_by("pk")[1200]
    stranger.execute("SELECT FROM station_auditentry WHERE id = %s FOR UPDATE", [held.pk])
    deleted: list[int] = []

    def work() -> None:
        deleted.append(clean("audit", run))
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert deleted == [2499]
    stranger.rollback()

    assert clean("audit", run) == 1
