"""Node health: three misses mean down, one answer means up, and one alert is raised."""

from pathlib import Path
from typing import Any

import pytest

from nodes.machines import health
from nodes.models import Node
from station.models import Alert

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def unreachable(tmp_path: Path) -> Node:
    return Node.objects.create(name="far", address=f"unix://{tmp_path}/no.sock", media_dir="/m", state="up")


def test_three_misses_mean_down_and_raise_one_alert(unreachable: Node) -> None:
    states = []
    for _ in range(5):
        node = Node.objects.get()
        assert health.check(node) is False
        states.append(Node.objects.get().state)

    assert states == ["up", "up", "down", "down", "down"]
    assert "No engine answers at" in Node.objects.get().last_error
    alert = Alert.objects.get()
    assert (alert.key, alert.state) == (f"node_down:{unreachable.pk}", "open")


def test_a_new_node_that_does_not_answer_is_down_at_once(unreachable: Node) -> None:
    Node.objects.update(state="unknown")
    health.check(Node.objects.get())
    assert Node.objects.get().state == "down"


def test_one_answer_means_up_and_resolves_the_alert(unreachable: Node, tmp_path: Path) -> None:
    for _ in range(3):
        health.check(Node.objects.get())
    Node.objects.update(address="process", media_dir=str(tmp_path / "media"))

    assert health.check(Node.objects.get()) is True

    node = Node.objects.get()
    assert node.state == "up"
    assert node.free_bytes
    assert Alert.objects.get().state == "resolved"
    assert [event.new for event in node.events.all()] == ["down", "up"]


def test_tls_without_certificates_names_the_missing_files(settings: Any, tmp_path: Path) -> None:
    settings.NODE_KEYS_DIR = tmp_path
    node = Node.objects.create(name="far", address="tcp://127.0.0.1:2376", media_dir="/m")

    health.check(node)

    assert "Mutual TLS needs ca.pem, cert.pem, key.pem" in Node.objects.get().last_error


def test_a_media_folder_that_cannot_be_written_is_shown_as_the_last_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    node = Node.objects.create(name="local", address="process", media_dir=str(tmp_path / "file" / "media"))

    health.check(node)

    assert "The media folder cannot be used" in Node.objects.get().last_error
    assert Alert.objects.get().key == f"node_disk:{node.pk}"
