"""The container's hardening as the engine reports it, field by field, and without any secret (S-05)."""

import json
from typing import Any

import pytest

from nodes.runtimes import installation
from scheduling.models import Recorder
from scheduling.recording.controls import start_now, stop_now

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker]


@pytest.fixture
def inspected(make_docker_node: Any, project: Any, settings: Any) -> Any:
    """`docker inspect` of a running recording."""
    node = make_docker_node("a")
    recorder = Recorder.objects.create(
        name="Hardened", project=project, source_type="test", picture_size="160x90", video_bitrate="200k"
    )
    outcome = start_now(recorder, by="anna")
    assert outcome.is_good, outcome.text
    [name] = [name for name in node.engine.containers() if "probe" not in name]
    yield json.loads(node.engine.docker("inspect", name).stdout)[0], outcome.target, node
    assert stop_now(recorder, by="anna").is_good
    assert node.engine.containers() == []


def test_the_container_is_hardened_field_by_field(inspected: Any, settings: Any) -> None:
    """S-05: non-root, no capabilities, read-only, limited, one mount, no settings in the environment."""
    found, booking, node = inspected
    config, host = found["Config"], found["HostConfig"]

    assert config["User"] == "10001:10001"
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] in (None, [])
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Privileged"] is False
    assert host["ReadonlyRootfs"] is True
    assert host["Memory"] == settings.WORKER_MEMORY_MB * 1024 * 1024
    assert host["MemorySwap"] == host["Memory"]
    assert host["NanoCpus"] == int(settings.WORKER_CPUS * 1e9)
    assert host["PidsLimit"] == settings.WORKER_PIDS
    assert host["NetworkMode"] == "host"
    assert host["PortBindings"] in (None, {})
    assert host["PidMode"] == ""
    assert host["IpcMode"] in {"private", "shareable"}
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["Binds"] in (None, [])
    assert host["Devices"] in (None, [])
    assert host["Tmpfs"] == {"/tmp": "rw,noexec,nosuid,nodev,size=64m,mode=1777"}
    assert [(mount["Source"], mount["Destination"], mount["Type"]) for mount in found["Mounts"]] == [
        (node.media_dir, "/media", "bind")
    ]
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "2", "max-size": "10m"}}
    assert config["Cmd"] == ["capture"]
    assert config["Labels"] == {
        "airlock.installation": installation(),
        "airlock.owner": booking.owner,
        "airlock.generation": "1",
        "airlock.epoch": "0",
    }
    names = {line.split("=")[0] for line in config["Env"]}
    assert names <= {"PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


def test_the_media_worker_in_the_container_has_no_rights_and_can_write_to_its_media_folder_only(inspected: Any) -> None:
    """The settings hold inside the container: uid 10001, no capabilities, a read-only root."""
    found, _, node = inspected
    name = found["Name"].lstrip("/")

    def inside(*command: str) -> str:
        return str(node.engine.docker("exec", name, *command, check=False).stdout)

    status = inside("cat", "/proc/1/status")
    assert "Uid:\t10001\t10001\t10001\t10001" in status
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert node.engine.docker("exec", name, "touch", "/opt/airlock/x", check=False).returncode != 0
    assert node.engine.docker("exec", name, "touch", "/media/allowed", check=False).returncode == 0
