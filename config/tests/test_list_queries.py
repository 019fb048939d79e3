"""Lists and tables ask the same number of questions, however many rows they show."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from assets.models import Asset, AssetPart, Delivery, Destination, Import, RetentionRule, WatchFolder
from jobs.models import Job, JobWorker, Run
from nodes.models import Node, Port, Reservation, Workload
from playout.models import AsRunEntry, Channel, Playlist, PlaylistItem
from scheduling.models import Booking, CalendarFeed, Recorder, Schedule
from station.models import Alert, AlertRoute, ApiToken, AuditEntry, Membership, Project

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
TABLES = ("tonight", "what-goes", "punctuality")
FEW, MANY = 10, 100
LARGEST_PAGE = 320_000  # bytes, with 100 choices in each filter


def fill(project: Project, numbers: range) -> None:
    """Rows of every model; each one has a row of its own for every column that shows another model."""
    for number in numbers:
        own = Project.objects.create(name=f"Project {number}", slug=f"p{number}")
        _fill_people(own, number)
        node = _fill_nodes(project, number)
        booking = _fill_scheduling(project, own, node, number)
        asset = _fill_library(project, own, booking, number)
        _fill_playout(project, asset, node, number)
        _fill_jobs(project, asset, number)


def _fill_people(own: Project, number: int) -> None:
    now = timezone.now()
    user = User.objects.create(username=f"user-{number}", is_staff=True)
    role = Group.objects.create(name=f"role-{number}")
    role.permissions.add(*Permission.objects.order_by("pk")[number : number + 3])
    user.groups.add(role)
    Membership.objects.create(project=own, user=user, role=role)
    ApiToken.objects.create(
        user=user, name="desk", token_hash=f"{number}", created_at=now, created_by="anna", last_used_at=now
    )


def _fill_nodes(project: Project, number: int) -> Node:
    now = timezone.now()
    node = Node.objects.create(
        name=f"n{number}", address=f"unix:///run/{number}.sock", media_dir="/m", state="up", free_bytes=1, total_bytes=2
    )
    port = Port.objects.create(node=node, kind="decklink", number=0, note="x")
    Reservation.objects.create(port=port, owner=f"x:{number}", holder="somebody", starts_at=now, project=project)
    Workload.objects.create(
        owner=f"booking:{number}",
        generation=1,
        node=node,
        project=project,
        name=f"w{number}",
        program="capture",
        control_port=9600,
        state="running",
        created_at=now,
    )
    return node


def _fill_scheduling(project: Project, own: Project, node: Node, number: int) -> Booking:
    now = timezone.now()
    recorder = Recorder.objects.create(name=f"Cam {number}", project=project, source_type="test", node=node)
    schedule = Schedule.objects.create(
        name=f"Rule {number}",
        recorder=recorder,
        kind="daily",
        first_on=now.date(),
        start_time=now.time(),
        length=timedelta(hours=1),
        plan_due_at=now,
    )
    CalendarFeed.objects.create(project=own, token_hash=f"{number}", created_at=now, created_by="anna")
    for shift, state in enumerate(("recording", "planned")):
        at = now + timedelta(hours=2 * shift)
        booking = Booking.objects.create(
            recorder=recorder,
            schedule=schedule,
            planned_start_at=at,
            state=state,
            starts_at=at,
            ends_at=at + timedelta(hours=1),
            opens_at=at,
            closes_at=at + timedelta(hours=1),
            dispatched_at=at if state == "recording" else None,
            late_by_seconds=0.1,
        )
    Alert.objects.create(
        key=f"a:{number}", severity=20, title="Fire", project=project, raised_at=now, last_seen_at=now, state="open"
    )
    AlertRoute.objects.create(name=f"r{number}", channel="mail", target="a@b.example", project=project)
    AuditEntry.objects.create(at=now, who="anna", what="x", subject="y:1", subject_name="Y", project=project)
    return booking


def _fill_library(project: Project, own: Project, booking: Booking, number: int) -> Asset:
    now = timezone.now()
    common: dict[str, Any] = {"project": project, "origin": "recording", "created_at": now - timedelta(days=40)}
    other = Asset.objects.create(title=f"Other {number}", state="ready", **common)
    asset = Asset.objects.create(
        title=f"Clip {number}",
        state="ready",
        booking=booking,
        replacement=other,
        withdrawn_at=now,
        held_at=now,
        **common,
    )
    AssetPart.objects.create(asset=asset, number=1, node=booking.recorder.node, path=f"/m/{number}.ts")
    Asset.objects.create(title=f"Trash {number}", state="ready", trashed_at=now, purge_at=now, **common)
    destination = Destination.objects.create(project=project, name=f"MAM {number}", connector="folder")
    Delivery.objects.create(asset=asset, destination=destination, state="pending", created_at=now)
    folder = WatchFolder.objects.create(name=f"In {number}", project=project, path=f"/in/{number}")
    run = _run(project, number, "import")
    Import.objects.create(
        project=project,
        state="copying",
        way="watch",
        name="a.ts",
        source=f"/x/{number}",
        fingerprint="1",
        created_at=now,
        watch_folder=folder,
        asset=asset,
        run_ref=run.pk,
    )
    # Upcoming deletions judges each project by its own rule; here it is the number of assets that grows.
    RetentionRule.objects.create(project=own, max_age_days=30, is_active=False)
    RetentionRule.objects.get_or_create(project=project, defaults={"max_age_days": 30})
    return asset


def _fill_playout(project: Project, asset: Asset, node: Node, number: int) -> None:
    now = timezone.now()
    playlist = Playlist.objects.create(name=f"Loop {number}", project=project)
    PlaylistItem.objects.create(playlist=playlist, asset=asset)
    channel = Channel.objects.create(
        name=f"Channel {number}", project=project, playlist=playlist, node=node, filler=asset
    )
    dated = Playlist.objects.create(name="Day", project=project, channel=channel, on=now.date())
    item = PlaylistItem.objects.create(playlist=dated, kind="live", source=asset.booking.recorder, length_seconds=9)
    AsRunEntry.objects.create(
        channel=channel, generation=1, seq=1, kind="asset", title="Clip", started_at=now, asset=asset, item=item
    )


def _run(project: Project, number: int, what: str) -> Run:
    now = timezone.now()
    job, _ = Job.objects.get_or_create(name=f"{what}.{number}", defaults={"title": "x", "trigger": "queue"})
    return Run.objects.create(
        job=job,
        project=project,
        state="running",
        trigger="queue",
        run_at=now,
        created_at=now,
        progress_percent=5,
        worker_ref=number,
    )


def _fill_jobs(project: Project, asset: Asset, number: int) -> None:
    now = timezone.now()
    _run(project, number, "work")
    JobWorker.objects.create(
        name=f"w{number}",
        place="x",
        pid=number + 1,
        pid_started="1",
        heavy_slots=1,
        light_slots=1,
        started_at=now,
        heartbeat_at=now,
    )


def ask(client: Client) -> dict[str, tuple[int, int]]:
    """For each list and table that this person may see: the number of queries and the bytes of the page."""
    found = {}
    lists = {each._meta.label: f"admin:{each._meta.app_label}_{each._meta.model_name}_changelist" for each in MODELS}
    for label, name in {**lists, **{each: each for each in TABLES}}.items():
        with CaptureQueriesContext(connection) as asked:
            page = client.get(reverse(name))
        assert page.status_code in {200, 403}, label
        if page.status_code == 200:
            found[label] = len(asked), len(page.content)
    return found


@pytest.mark.parametrize("who", ["administrator", "member"])
def test_no_list_asks_more_when_it_shows_more_rows(
    who: str, project: Project, admin_user: User, make_member: Callable[..., User]
) -> None:
    client = Client()
    client.force_login(admin_user if who == "administrator" else make_member(project, "engineer"))
    fill(project, range(FEW))
    ask(client)  # what is read once per process is read here
    few = ask(client)
    fill(project, range(FEW, MANY))
    many = ask(client)

    assert {"scheduling.Recorder", "scheduling.Booking", "assets.Asset", "tonight"} <= set(few)
    grown = {label: (count, many[label][0]) for label, (count, _) in few.items() if many[label][0] > count}
    assert grown == {}
    heavy = {label: size for label, (_, size) in many.items() if size > LARGEST_PAGE}
    assert heavy == {}
    assert many["scheduling.Recorder"][1] < 280_000
