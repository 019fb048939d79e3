"""Start and Stop pressed in the admin, on a real Docker Engine, without a scheduler."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from nodes.models import Workload
from playout.models import Channel
from scheduling.models import Booking, Recorder
from station.models import AuditEntry
from testing.channels import make_channel
from testing.media import decode

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker]


@pytest.fixture
def boss(admin_user: Any) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


def press(client: Client, model: str, pk: int, button: str) -> str:
    """Post the button's dialog, as the browser does; returns the page that follows."""
    url = reverse(f"admin:{model}_{button}", args=[pk])
    answer = client.post(url, {"_form_submitted": "on"})
    assert answer.status_code == 200, answer.status_code
    return client.get(answer.headers["HX-Redirect"]).content.decode()


def running(node: Any) -> list[str]:
    """Running containers, as the engine reports them."""
    return sorted(node.engine.docker("ps", "--format", "{{.Names}}").stdout.split())


def test_start_and_stop_of_a_recorder_reach_the_docker_socket(
    make_docker_node: Any, project: Any, boss: Client
) -> None:
    """R-08, S-02: one container per Start, none after Stop, a file that can be played, two audit entries."""
    node = make_docker_node("a")
    recorder = Recorder.objects.create(
        name="Studio", project=project, source_type="test", picture_size="160x90", video_bitrate="200k"
    )
    asked = boss.get(reverse("admin:scheduling_recorder_start_detail", args=[recorder.pk]))
    assert asked.status_code in {200, 405}
    assert (running(node), Booking.objects.count()) == ([], 0), "opening the dialog starts nothing"

    page = press(boss, "scheduling_recorder", recorder.pk, "start_detail")

    workload = Workload.objects.get()
    assert running(node) == [workload.name]
    labels = node.engine.docker("inspect", "--format", "{{json .Config.Labels}}", workload.name).stdout
    assert f'"{workload.owner}"' in labels
    assert "first frame after" in page
    assert node.name in page
    assert Booking.objects.get().state == Booking.State.RECORDING

    page = press(boss, "scheduling_recorder", recorder.pk, "stop_detail")

    assert node.engine.containers() == []
    assert "Stopped." in page
    booking = Booking.objects.get()
    assert booking.state == Booking.State.COMPLETED, [str(event) for event in booking.events.all()]
    [part] = booking.parts
    assert decode(Path(node.media_dir) / booking.folder / part["file"]) >= part["frames"] > 0
    written = AuditEntry.objects.filter(who="boss", what__in=["start", "stop"]).order_by("pk")
    assert [row.what for row in written] == ["start", "stop"]


def test_start_and_stop_of_a_channel_reach_the_docker_socket(
    make_docker_node: Any, project: Any, boss: Client, settings: Any
) -> None:
    """P-01, S-02: the same for playout: on air from the container, off air without it, a file that can be played."""
    settings.WORKER_PREVIEW = False
    node = make_docker_node("a")
    settings.RECORDINGS_DIR = Path(node.media_dir)
    channel = make_channel(project, Path(node.media_dir), clips=1, seconds=20.0)

    press(boss, "playout_channel", channel.pk, "start_channel")

    channel.refresh_from_db()
    assert channel.state == Channel.State.ON_AIR, channel.error
    assert running(node) == [Workload.objects.get().name]

    press(boss, "playout_channel", channel.pk, "stop_channel")

    channel.refresh_from_db()
    assert channel.state == Channel.State.OFF_AIR
    assert node.engine.containers() == []
    [path] = Path(node.media_dir).rglob("out*.ts")
    assert decode(path) > 0
