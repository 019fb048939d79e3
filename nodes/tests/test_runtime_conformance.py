"""One suite for both real runtimes: it tests everything that the rest of Airlock expects of a runtime."""

import json
import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from nodes.models import Node
from nodes.runtimes import installation, runtime_for
from nodes.runtimes.base import Identity, Launch, NameTaken, Observed, Refused, Runtime, Status
from testing.waiting import wait_until
from worker.wire.configuration import Control, write_handover

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(any_node: Any) -> Node:
    return any_node


@pytest.fixture
def runtime(node: Node) -> Runtime:
    return runtime_for(node)


@pytest.fixture
def launch(node: Node) -> Launch:
    return launch_named(node, f"airlock-test-{uuid4().hex[:8]}")  # other tests use this machine too


def launch_named(node: Node, name: str, *, source: dict[str, Any] | None = None) -> Launch:
    control = Control(name, 1, "token-of-the-test", "127.0.0.1", node.control_port_from + 7)
    config = {
        "source": source or {"type": "test", "url": "", "size": "160x90"},
        "folder": "conformance",
        "name": name,
        "min_free_bytes": 1,
    }
    return Launch(name, Identity(installation(), name, 1), "capture", write_handover(control, config))


def status_of(runtime: Runtime, name: str) -> Status | None:
    observed = runtime.inspect(name)
    return observed.status if observed else None


def wait_for_exit(runtime: Runtime, name: str) -> Observed:
    wait_until(lambda: status_of(runtime, name) is Status.EXITED, 20, f"{name} exits")
    observed = runtime.inspect(name)
    assert observed is not None
    return observed


def test_ping_returns_a_version_and_free_disk_is_plausible(runtime: Runtime) -> None:
    assert runtime.ping()
    disk = runtime.free_disk()
    assert 0 < disk.free_bytes <= disk.total_bytes


def test_a_check_shows_the_version_and_our_containers(runtime: Runtime, launch: Launch) -> None:
    """Both ways: with a wait for the answer, and without one on a kept connection."""
    runtime.start(launch)
    try:
        first = runtime.check(installation())
        pending = runtime.begin_check(installation())
        answers = [first, pending.read(10)] if pending is not None else [first]
        assert [answer.version for answer in answers] == [runtime.ping()] * len(answers)
        for answer in answers:
            assert [(seen.name, seen.identity) for seen in answer.containers] == [(launch.name, launch.identity)]
        assert runtime.check(None).containers == []
    finally:
        runtime.stop(launch.name, force=True)
        wait_for_exit(runtime, launch.name)
        runtime.remove(launch.name)


def test_nothing_exists_before_the_first_start(runtime: Runtime) -> None:
    assert runtime.inspect("airlock-test-one") is None
    assert runtime.list_ours() == []
    assert runtime.logs("airlock-test-one") == ""
    runtime.stop("airlock-test-one")
    runtime.remove("airlock-test-one")


def test_start_runs_a_container_and_list_finds_it_with_its_identity(runtime: Runtime, launch: Launch) -> None:
    observed = runtime.start(launch)

    assert observed.status is Status.RUNNING
    assert [(seen.name, seen.identity) for seen in runtime.list_ours()] == [(launch.name, launch.identity)]


def test_second_start_of_the_same_name_adopts_the_first(runtime: Runtime, launch: Launch) -> None:
    runtime.start(launch)

    again = runtime.start(launch)

    assert again.status is Status.RUNNING
    assert len(runtime.list_ours()) == 1


def test_the_name_of_another_generation_is_not_adopted(runtime: Runtime, launch: Launch) -> None:
    runtime.start(launch)
    other = Launch(launch.name, Identity(installation(), launch.identity.owner, 2), "capture", launch.config)

    with pytest.raises(NameTaken):
        runtime.start(other)


def test_a_container_that_is_not_ours_is_never_touched(node: Node, runtime: Runtime, launch: Launch) -> None:
    stranger = Launch(launch.name, Identity("f" * 32, "stranger", 1), "capture", launch.config)
    foreign = runtime_for(node)
    foreign._installation = "f" * 32
    foreign.start(stranger)

    with pytest.raises(NameTaken):
        runtime.start(launch)
    with pytest.raises(NameTaken):
        runtime.stop(launch.name)
    with pytest.raises(NameTaken):
        runtime.remove(launch.name)

    assert runtime.list_ours() == []
    assert status_of(runtime, launch.name) is Status.RUNNING
    foreign.stop(launch.name, force=True)


def test_stop_ends_a_media_worker_cleanly_and_its_log_has_a_final_status(
    runtime: Runtime, launch: Launch, node: Node
) -> None:
    runtime.start(launch)
    folder = Path(node.media_dir) / "conformance"
    wait_until(lambda: any(path.stat().st_size for path in folder.glob("*.ts")), 20, "bytes arrive")

    runtime.stop(launch.name)

    assert wait_for_exit(runtime, launch.name).exit_code == 0
    final = json.loads(runtime.logs(launch.name).splitlines()[-1])["final"]
    assert final["state"] == "done"
    assert final["frames"] > 0


def test_force_ends_a_media_worker_that_ignores_the_signal(runtime: Runtime, launch: Launch) -> None:
    runtime.start(launch)

    runtime.stop(launch.name, force=True)

    assert wait_for_exit(runtime, launch.name).exit_code in {137, -9}


def test_remove_removes_an_ended_container_and_refuses_a_running_one(runtime: Runtime, launch: Launch) -> None:
    runtime.start(launch)
    with pytest.raises(Refused):
        runtime.remove(launch.name)
    assert status_of(runtime, launch.name) is Status.RUNNING

    runtime.stop(launch.name, force=True)
    wait_for_exit(runtime, launch.name)
    runtime.remove(launch.name)

    assert runtime.inspect(launch.name) is None
    assert runtime.list_ours() == []


def test_a_media_worker_with_an_invalid_config_ends_with_its_own_exit_code(runtime: Runtime, launch: Launch) -> None:
    runtime.start(Launch(launch.name, launch.identity, "capture", "{}"))

    assert wait_for_exit(runtime, launch.name).exit_code == 64
    assert "bad config" in runtime.logs(launch.name)


def test_a_killed_media_worker_leaves_no_processes(runtime: Runtime, launch: Launch, node: Node) -> None:
    """kill -9 of the media worker ends its ffmpeg too."""
    runtime.start(launch)
    marker = f"{launch.name}-001.ts"
    wait_until(lambda: processes_with(marker), 20, "ffmpeg runs")

    runtime.stop(launch.name, force=True)

    wait_until(lambda: not processes_with(marker), 10, "ffmpeg is gone")


def processes_with(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if word.encode() in command and b"ffmpeg" in command:
            found.append(int(path.parent.name))
    return found


def test_a_frozen_media_worker_still_counts_as_running(runtime: Runtime, launch: Launch, node: Node) -> None:
    runtime.start(launch)
    marker = f"{launch.name}-001.ts"
    [pid] = wait_until(lambda: processes_with(marker), 20, "ffmpeg runs")
    stat = Path(f"/proc/{pid}/stat").read_text()
    worker = int(stat[stat.rindex(")") + 2 :].split()[1])

    os.kill(worker, signal.SIGSTOP)

    assert status_of(runtime, launch.name) is Status.RUNNING
    runtime.stop(launch.name, force=True)
    wait_for_exit(runtime, launch.name)
