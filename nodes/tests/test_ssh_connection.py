"""N-08: many calls share one ssh connection; one that is slow or fails does not end it for the others."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nodes.runtimes import tunnel
from nodes.runtimes.base import OutcomeUnknown, Unreachable
from nodes.runtimes.docker import DockerRuntime
from testing.standin_engine import HELD, StandInEngine
from testing.waiting import wait_until

SLOW, STEADY = f"{HELD}slow", f"{HELD}steady"

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInEngine]:
    path = tmp_path / "e.sock"
    monkeypatch.setattr(tunnel, "REMOTE_SOCKET", str(path))
    engine = StandInEngine(path)
    yield engine
    engine.close()


@pytest.fixture
def runtime(engine: StandInEngine, ssh_server: tuple[int, Path], tmp_path: Path) -> DockerRuntime:
    port, config = ssh_server
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "ssh_config").write_text(config.read_text())
    address = f"ssh://root@127.0.0.1:{port}"
    return DockerRuntime(lambda: "a" * 32, address=address, media_dir="/m", network="host", keys_dir=keys)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Each thread has a client of its own, as in the scheduler."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def ssh_pid() -> int:
    [line] = tunnel._tunnels.values()
    return line.process.pid


def test_a_call_that_times_out_leaves_the_connection_to_the_others(
    runtime: DockerRuntime, engine: StandInEngine, threads: ThreadPoolExecutor, settings: Any
) -> None:
    """N-08."""
    settings.NODE_CALL_SECONDS = 60
    steady = threads.submit(runtime.inspect, STEADY)
    wait_until(lambda: STEADY in engine.asked, 20, "a long call is on its way")
    before = ssh_pid()

    settings.NODE_CALL_SECONDS = 1
    with pytest.raises(OutcomeUnknown):
        runtime.inspect(SLOW)

    assert ssh_pid() == before
    engine.release(STEADY)
    assert steady.result(20) is None
    assert runtime.ping() == "Docker stand-in"
    assert ssh_pid() == before


def test_after_a_lost_connection_every_thread_goes_on_with_the_new_one(
    runtime: DockerRuntime, threads: ThreadPoolExecutor
) -> None:
    """N-08: nobody's first call on the new connection fails, and nobody ends it again."""
    barrier = threading.Barrier(4)

    def ping() -> str:
        barrier.wait(20)
        return runtime.ping()

    def all_ping() -> list[str]:
        return [call.result(30) for call in [threads.submit(ping) for _ in range(4)]]

    assert all_ping() == ["Docker stand-in"] * 4
    [line] = tunnel._tunnels.values()
    os.kill(line.process.pid, signal.SIGKILL)
    line.process.wait(5)

    assert all_ping() == ["Docker stand-in"] * 4
    after = ssh_pid()
    assert all_ping() == ["Docker stand-in"] * 4
    assert ssh_pid() == after


def test_a_frozen_ssh_process_is_replaced_when_nothing_answers_over_it(
    runtime: DockerRuntime, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-08: it is alive, so only the silence of all calls shows it."""
    settings.NODE_CALL_SECONDS = 1
    monkeypatch.setattr(tunnel, "SILENT_SECONDS", 2.0)
    assert runtime.ping()
    frozen = ssh_pid()
    os.kill(frozen, signal.SIGSTOP)

    def answers() -> bool:
        try:
            return bool(runtime.ping())
        except (Unreachable, OutcomeUnknown):
            return False

    wait_until(answers, 20, "a new connection answers")
    assert ssh_pid() != frozen
