"""Every admin page renders, health needs no login, and times are shown with their zone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from assets.delivery.lifecycle import want
from assets.models import Asset, Destination, Import, RetentionRule, WatchFolder
from jobs.runs import process_records
from jobs.runs.queue import run_by_hand
from nodes.models import Node, Port, Reservation, Workload
from playout.models import AsRunEntry, Channel, ChannelOutput, Playlist, PlaylistItem, Recovery
from scheduling.bookings.calendars import make_feed
from scheduling.bookings.making import book
from scheduling.models import Recorder, Schedule
from station import audit, tokens
from station.alerts import raise_alert
from station.models import AlertRoute
from station.models.alert import AlertDelivery

pytestmark = [pytest.mark.django_db]

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)


@pytest.fixture
def one_of_each(project: Any, admin_user: User) -> None:
    """One row of every model, so that each page has something to show."""
    now = timezone.now()
    node = Node.objects.create(name="n1", address="process", media_dir="/media")
    port = Port.objects.create(node=node, kind="decklink", number=0)
    Reservation.objects.create(port=port, owner="x:1", holder="somebody", starts_at=now)
    recorder = Recorder.objects.create(name="Cam", project=project, source_type="test")
    booking = book(recorder, now, now + (now.replace(year=now.year + 1) - now) / 1000, now=now, by="anna")
    Schedule.objects.create(
        name="Evening",
        recorder=recorder,
        kind="daily",
        first_on=now.date(),
        start_time=now.time(),
        length=timedelta(hours=1),
    )
    make_feed(project, now=now, by="anna")
    Workload.objects.create(
        owner=booking.owner,
        generation=1,
        node=node,
        name="w1",
        program="capture",
        control_port=9600,
        state="running",
        created_at=now,
        progress={"frames": 5},
    )
    AlertRoute.objects.create(name="desk", channel="mail", target="desk@tv.example", min_severity=10)
    alert = raise_alert("fire", "Fire", now=now, project=project)
    assert AlertDelivery.objects.filter(alert=alert).exists()
    audit.record("anna", "change", recorder, before={"name": "a"}, after={"name": "b"})
    run_by_hand("runs.retention", by="anna")
    tokens.make(admin_user, "desk", now=now, by="anna")
    process_records.register(heavy=1, light=8, only=[], now=now)
    process_records.tell_scheduler(now)
    fill_library(project)
    fill_playout(project)


def fill_playout(project: Any) -> None:
    now = timezone.now()
    playlist = Playlist.objects.create(name="Loop", project=project)
    PlaylistItem.objects.create(playlist=playlist, asset=Asset.objects.get())
    PlaylistItem.objects.create(playlist=playlist, position=1, kind="slate", length_seconds=5)
    channel = Channel.objects.create(name="One", project=project, playlist=playlist)
    ChannelOutput.objects.create(channel=channel, type="udp", address="udp://239.1.1.1:5000")
    AsRunEntry.objects.create(channel=channel, generation=1, seq=1, kind="asset", title="Clip", started_at=now)
    Recovery.objects.create(channel=channel, kind="restart", reason="x", by="y", lost_at=now, noticed_at=now)


def fill_library(project: Any) -> None:
    now = timezone.now()
    asset = Asset.objects.create(project=project, title="Clip", state="ready", origin="import", created_at=now)
    destination = Destination.objects.create(
        project=project, name="MAM", connector="folder", config={"path": "/srv/outgoing"}
    )
    want(asset, destination, now=now, by="anna")
    WatchFolder.objects.create(name="Cameras", project=project, path="/srv/incoming")
    Import.objects.create(
        project=project, state="refused", way="upload", name="a.txt", source="/x", fingerprint="1", created_at=now
    )
    RetentionRule.objects.create(project=project, max_age_days=30)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_list_and_object_pages_render(model: Any, one_of_each: None, admin_user: User) -> None:
    client = Client()
    client.force_login(admin_user)
    name = f"{model._meta.app_label}_{model._meta.model_name}"

    assert client.get(reverse(f"admin:{name}_changelist")).status_code == 200
    row = model._default_manager.first()
    assert row is not None, "one_of_each makes a row of every model"
    assert client.get(reverse(f"admin:{name}_change", args=[row.pk])).status_code == 200
    assert client.get(reverse(f"admin:{name}_history", args=[row.pk]), follow=True).status_code == 200


def test_an_object_that_does_not_exist_is_404(admin_user: User) -> None:
    client = Client()
    client.force_login(admin_user)
    assert client.get(reverse("admin:scheduling_recorder_change", args=[4711])).status_code == 404


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_an_address_without_an_id_is_404(model: Any, admin_user: User) -> None:
    """The page, and the dialog of each of its buttons."""
    client = Client()
    client.force_login(admin_user)
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    page: Any = admin.site._registry[model]
    names = [button.method_name for button in (*getattr(page, "buttons", ()), *getattr(page, "row_buttons", ()))]
    for each in ("change", *names):
        assert client.get(reverse(f"{name}_{each}", args=["abc"])).status_code in {302, 404}, each


def test_health_needs_no_login_and_takes_no_post() -> None:
    """J-23: health for load balancers."""
    for path in ("/healthz", "/readyz"):
        answer = Client().get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert Client().post(path).status_code == 405


def test_times_are_shown_in_house_time_with_the_zone(admin_user: User, project: Any) -> None:
    moment = datetime(2026, 7, 1, 18, 0, tzinfo=UTC)
    recorder = Recorder.objects.create(name="Cam", project=project, source_type="test")
    audit.record("anna", "change", recorder)
    from station.models import AuditEntry

    AuditEntry.objects.update(at=moment)
    client = Client()
    client.force_login(admin_user)

    page = client.get(reverse("admin:station_auditentry_changelist")).content.decode()

    assert "2026-07-01 20:00:00 CEST" in page


def test_bad_fields_are_explained_and_nothing_is_stored(admin_user: User, project: Any) -> None:
    """S-07."""
    client = Client()
    client.force_login(admin_user)
    data = {
        "name": "Cam",
        "project": project.pk,
        "source_type": "srt",
        "address": "srt://h:9000",
        "new_secret": "short",
        "container": "mpegts",
        "split_minutes": "0",
        "picture_size": "big",
        "video_bitrate": "4M",
        "folder_template": "../{nonsense}",
        "pad_before_seconds": "99999",
        "pad_after_seconds": "0",
        "node_labels": "UPPER;case",
    }

    page = client.post(reverse("admin:scheduling_recorder_add"), data).content.decode()

    for sentence in (
        "An SRT passphrase has 10 to 79 characters.",
        "Enter a size like 1280x720.",
        "{nonsense} is not known.",
        "less than or equal to 3600",
        "Use labels of a-z",
    ):
        assert sentence in page, sentence
    assert not Recorder.objects.exists()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "docker",
        "unix://relative",
        "unix:///../x",
        "tcp://h",
        "tcp://u@h:1",
        "ssh://-oProxyCommand=x/",
        "ssh://u:p@h",
        "http://h",
    ],
)
def test_a_bad_node_address_is_refused(address: str, admin_user: User) -> None:
    """S-07."""
    client = Client()
    client.force_login(admin_user)

    page = client.post(reverse("admin:nodes_node_add"), {"name": "n", "address": address, "media_dir": "/m"})

    assert page.status_code == 200
    assert not Node.objects.exists()
