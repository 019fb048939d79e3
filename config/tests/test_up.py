"""`manage.py up`: it starts, prints address and login, refuses clearly, and stops only what it should."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.airlock import Airlock
from testing.processes import children_of, command_of, is_alive
from testing.waiting import wait_until

pytestmark = [pytest.mark.crash]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airlock]:
    """One folder for the tests that do not need a fresh one: a first run costs more than all they do.

    It may have any name: spaces, quotes and percent signs, and longer than a socket's address may be.
    """
    folder = tmp_path_factory.mktemp("house") / f"with space & 'quote' %20 {'x' * 150}"
    folder.mkdir()
    house = Airlock(folder / "data")
    yield house
    if house.process and house.process.poll() is None:
        house.stop(signal.SIGTERM)
    end_leftovers(house.data_dir)


@pytest.fixture
def airlock(house: Airlock) -> Airlock:
    """A running Airlock, whatever the test before did to it."""
    if house.process is None or house.process.poll() is not None:
        house.start()
    wait_until(house.is_healthy, 60, "it answers")
    return house


def end_leftovers(data_dir: Path) -> None:
    for path in Path("/proc").glob("[0-9]*"):
        if str(data_dir) in command_of(int(path.name)) and int(path.name) != os.getpid():
            try:
                os.kill(int(path.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def postgres_pids(data_dir: Path) -> list[int]:
    found = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in found if f"{data_dir}/postgres/data" in command_of(pid) and "postgres" in command_of(pid)]


def test_it_comes_up_answers_without_login_and_prints_the_password_once(airlock: Airlock) -> None:
    """This must be the first test: it needs the first run of the folder."""
    assert airlock.is_healthy()
    assert airlock.text().count("with the password") == 1
    password = airlock.password()

    assert airlock.stop() == 0
    assert not airlock.is_healthy()
    wait_until(lambda: not postgres_pids(airlock.data_dir), 20, "the database is stopped")
    airlock.log.unlink()
    airlock.start()

    assert password not in airlock.text()
    assert "with the password" not in airlock.text()
    stored = [path for path in airlock.data_dir.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert stored == []


def test_ctrl_c_stops_web_and_database_but_not_the_recording(airlock: Airlock) -> None:
    started = airlock.manage("record", "Demo test pattern")
    assert started.returncode == 0, started.stderr + airlock.text()
    path = max(airlock.data_dir.glob("media/**/*pattern*.ts"), key=lambda path: path.stat().st_mtime)

    assert airlock.stop(signal.SIGINT) == 0

    size = path.stat().st_size
    wait_until(lambda: path.stat().st_size > size + 50_000, 20, "the recording continues without the other processes")
    airlock.start()
    stopped = airlock.manage("stop_recording", "Demo test pattern")
    assert stopped.returncode == 0, stopped.stderr
    assert "in 1 part," in stopped.stdout


def test_a_second_one_on_the_same_folder_is_refused_with_an_explanation(airlock: Airlock) -> None:
    other = Airlock(airlock.data_dir)

    refused = other.manage("up", "--port", str(other.port))

    assert refused.returncode == 1
    assert (
        f"Airlock is already running from this folder (process {airlock.process.pid}, {airlock.url})" in refused.stderr
    )
    assert airlock.is_healthy()


def test_a_taken_port_is_explained(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        airlock = Airlock(tmp_path / "data")

        refused = airlock.manage("up", "--port", str(port))

    assert refused.returncode == 1
    assert f"Port {port} on 127.0.0.1 cannot be used" in refused.stderr
    assert f"make run PORT={port + 1}" in refused.stderr


@pytest.mark.parametrize("victim", ["gunicorn", "runscheduler", "runworker"])
def test_a_killed_child_is_started_again(airlock: Airlock, victim: str) -> None:
    [pid] = [child for child in children_of(airlock.process.pid) if victim in command_of(child)]

    os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        found = [child for child in children_of(airlock.process.pid) if victim in command_of(child)]
        return bool(found) and found != [pid] and airlock.is_healthy()

    wait_until(is_back, 30, f"{victim} is back")


def test_kill_9_of_everything_leaves_nothing_to_clean_by_hand(airlock: Airlock) -> None:
    """The next start recovers the crashed database."""
    kids = children_of(airlock.process.pid)
    [postmaster] = [
        pid for pid in postgres_pids(airlock.data_dir) if re.search(r"bin/postgres\b.* -D", command_of(pid))
    ]
    airlock.process.kill()
    os.kill(postmaster, signal.SIGKILL)
    airlock.process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in kids), 30, "its children end with it")

    airlock.start()

    assert airlock.is_healthy()


def test_a_killed_database_is_started_again(airlock: Airlock) -> None:
    """PostgreSQL is not a child process of `up`, but `up` keeps it running."""
    [postmaster] = [
        pid for pid in postgres_pids(airlock.data_dir) if re.search(r"bin/postgres\b.* -D", command_of(pid))
    ]

    os.kill(postmaster, signal.SIGKILL)

    wait_until(lambda: not is_alive(postmaster), 10, "it is dead")
    wait_until(airlock.is_healthy, 40, "healthy again with a new database server")
    assert airlock.manage("record", "Demo test pattern").returncode == 0
    assert airlock.manage("stop_recording", "Demo test pattern").returncode == 0


def test_a_copied_example_of_the_settings_changes_nothing(tmp_path: Path) -> None:
    """Every line of .env.example is a comment, so that copying it is harmless."""
    lines = (Path(__file__).resolve().parents[2] / ".env.example").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "99999"], "99999 is not a port"),
        (["--port", "0"], "0 is not a port"),
        (["--host", "192.0.2.1"], "Choose another address"),
    ],
)
def test_an_address_that_cannot_be_used_is_explained(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    refused = Airlock(tmp_path / "data").manage("up", *arguments)
    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_folder_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    refused = Airlock(tmp_path / "data").manage("up")
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


def test_the_database_is_shared_by_commands_and_stopped_by_the_last(tmp_path: Path) -> None:
    """Two commands at once on a fresh folder: one starts the server, both use it, the last one stops it."""
    airlock = Airlock(tmp_path / "data")
    commands = [
        subprocess.Popen(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            env=airlock.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(2)
    ]
    outputs = [command.communicate(timeout=120)[0].decode() for command in commands]

    # Two migrates at once may collide inside Django; the server must keep running.
    assert 0 in [command.returncode for command in commands], outputs
    wait_until(lambda: not postgres_pids(airlock.data_dir), 20, "the last one stops the server")

    airlock.start("--no-demo")
    assert "with the password" not in airlock.text()
    assert airlock.stop() == 0
