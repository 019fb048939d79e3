"""Pre-flight checks find problems ahead of the start: node, port, disk, image, source (R-18, R-20)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes.machines.placement import Needs, choose
from nodes.models import Node
from scheduling.bookings.batch import PREFLIGHTS, first_preflight
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from scheduling.recording import preflight
from scheduling.recording.disk_forecast import bytes_needed
from scheduling.recording.workload_spec import ask_for_worker
from station.leader_term import Term
from station.models import Alert
from testing.media import free_port, sender
from testing.waiting import wait_until

HOUR = timedelta(hours=1)


def findings(booking: Booking) -> dict[str, tuple[bool, str]]:
    return {each.name: (each.is_good, each.text) for each in preflight.look(booking)}


@pytest.mark.django_db
def test_each_booking_is_checked_a_day_an_hour_and_five_minutes_before() -> None:
    """R-20."""
    starts = timezone.now() + timedelta(days=3)
    now = timezone.now()
    for ahead in PREFLIGHTS:
        assert first_preflight(starts, now) == starts - ahead
        now = starts - ahead
    assert first_preflight(starts, now) is None


def test_the_step_checks_and_returns_when_the_next_check_is_due(recorder: Recorder) -> None:
    """R-20: on threads of their own; a good booking raises no alert."""
    from nodes.machines.call_pools import pools

    now = timezone.now()
    booking = book(recorder, now + 25 * HOUR, now + 26 * HOUR, now=now)
    assert booking.next_preflight_at == now + HOUR

    due = preflight.step(Term(), now + HOUR)
    assert pools.wait_idle(20)

    assert due == booking.starts_at - HOUR
    booking.refresh_from_db()
    assert {each["name"]: each["is_good"] for each in booking.preflight} == {
        "port": True,
        "node": True,
        "disk": True,
        "media worker": True,
        "source": True,
    }
    assert not Alert.objects.exists()


@pytest.mark.django_db
def test_without_a_node_an_alert_says_why_and_is_resolved_when_there_is_one(project: Any) -> None:
    now = timezone.now()
    camera = Recorder.objects.create(name="Cam", project=project, source_type="test", node_labels="studio-a")
    booking = book(camera, now + timedelta(minutes=30), now + HOUR, now=now)
    Node.objects.create(name="n", address="process", media_dir="/tmp/n", state="up")

    assert findings(booking)["node"] == (False, "n: lacks the label studio-a")
    alert = Alert.objects.get()
    assert "a pre-flight check failed" in alert.title
    assert "node: n: lacks the label studio-a" in alert.text
    assert alert.get_severity_display() == "critical"

    Node.objects.update(labels="studio-a")
    assert findings(booking)["node"] == (True, "n")
    alert.refresh_from_db()
    assert alert.state == "resolved"


@pytest.mark.django_db
def test_a_disk_that_is_too_small_is_found(project: Any) -> None:
    """R-18: two hours at 4 Mbit/s do not fit into a gigabyte."""
    now = timezone.now()
    node = Node.objects.create(name="n", address="process", media_dir="/tmp/n", state="up", free_bytes=1_000_000_000)
    camera = Recorder.objects.create(name="Cam", project=project, source_type="test", node=node)
    booking = book(camera, now + HOUR, now + 3 * HOUR, now=now)
    assert 3.6e9 < bytes_needed(booking) < 4.5e9
    is_good, text = findings(booking)["disk"]
    assert not is_good
    assert "953 MB expected to be free on n" in text


@pytest.mark.django_db
def test_of_two_nodes_the_one_with_space_is_chosen_and_if_none_has_space_an_alert_is_raised(project: Any) -> None:
    """R-18: with too little space, it still records."""
    now = timezone.now()
    Node.objects.create(name="a", address="process", media_dir="/tmp/n", state="up", free_bytes=600_000_000)
    roomy = Node.objects.create(name="b", address="unix:///b", media_dir="/tmp/n", state="up", free_bytes=10**12)
    assert choose(Needs(owner="x", room_bytes=10**9), now) == roomy
    roomy.delete()
    camera = Recorder.objects.create(name="Cam", project=project, source_type="test")
    booking = book(camera, now, now + 3 * HOUR, now=now)
    Booking.objects.update(state="starting")
    booking.refresh_from_db()
    assert ask_for_worker(booking, now) is not None
    assert Alert.objects.get().key == f"disk_forecast:{booking.owner}"


def test_the_source_check_tells_whether_the_source_sends(process_node: Any, project: Any) -> None:
    """R-20: a short probe reads it as the recording will, and the secret is not shown."""
    port = free_port()
    camera = Recorder.objects.create(
        name="Cam", project=project, source_type="srt", address=f"srt://127.0.0.1:{port}?passphrase=very-secret-words"
    )
    now = timezone.now()
    booking = book(camera, now + HOUR, now + 2 * HOUR, now=now)
    is_good, text = findings(booking)["source"]
    assert not is_good
    assert text
    assert "very-secret-words" not in text

    with sender("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=listener&passphrase=very-secret-words"):
        wait_until(lambda: findings(booking)["source"] == (True, "sends a picture (h264, aac)"), 30, "the sender is up")
    assert not Alert.objects.exclude(state="resolved").exists()


@pytest.mark.docker
def test_a_missing_image_is_found(make_docker_node: Any, project: Any, settings: Any) -> None:
    """R-20: [docker] image present."""
    node = make_docker_node("a")
    camera = Recorder.objects.create(name="Cam", project=project, source_type="test", node=node)
    now = timezone.now()
    booking = book(camera, now + HOUR, now + 2 * HOUR, now=now)
    assert findings(booking)["media worker"] == (True, "can be started")
    settings.WORKER_IMAGE = "nobody-has-this:1"
    is_good, text = findings(booking)["media worker"]
    assert (is_good, "nobody-has-this:1 is not on this node" in text) == (False, True)
