"""Demo data: created once, not touched afterwards, on Docker if an engine can record."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from config.demo import data
from nodes.machines import health
from nodes.models import Node
from scheduling.models import Recorder, Schedule
from scheduling.recording.controls import start_now, stop_now
from testing.engines import IMAGE

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_is_created_once_and_changes_by_people_are_kept(settings: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(data, "DOCKER_SOCKET", tmp_path / "no.sock")
    first = data.ensure_demo()
    Recorder.objects.filter(name="Demo test pattern").update(name="Renamed")

    second = data.ensure_demo()

    assert first.password
    assert second.password is None
    assert User.objects.get().check_password(first.password)
    assert [recorder.name for recorder in Recorder.objects.all()] == ["Demo clockwork", "Renamed"]
    assert [schedule.in_words for schedule in Schedule.objects.all()] == ["Every 5 minutes, Europe/Berlin"]
    assert Node.objects.get().address == "process"


@pytest.mark.docker
class TestWithDocker:
    """On a test engine."""

    @pytest.fixture(params=["docker"])
    def engine(self, request: pytest.FixtureRequest, settings: Any, monkeypatch: Any) -> Any:
        engine = request.getfixturevalue("get_engine")("a")
        monkeypatch.setattr(data, "DOCKER_SOCKET", engine.socket)
        settings.WORKER_IMAGE = IMAGE
        settings.RECORDINGS_DIR.mkdir(parents=True)
        return engine

    def test_an_engine_with_the_image_is_used_and_records(self, engine: Any, control_ports: int) -> None:
        data.ensure_demo()

        node = Node.objects.get()
        assert node.address == engine.address
        health.check(node)
        Node.objects.update(control_port_from=control_ports)
        recorder = Recorder.objects.get(name="Demo test pattern")
        started = start_now(recorder, by="anna")
        assert started.is_good, started.text
        assert stop_now(recorder, by="anna").is_good

    def test_an_engine_without_the_image_is_not_used(self, engine: Any, settings: Any) -> None:
        settings.WORKER_IMAGE = "airlock-worker:absent"

        data.ensure_demo()

        assert Node.objects.get().address == "process"
