"""Fixtures for all apps. PostgreSQL always, real runtimes, nothing mocked."""

import os
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from testing.waiting import wait_until


@pytest.fixture(autouse=True)
def plain_environment(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain static files, cheap passwords, a data folder per test, and passes that are not interrupted."""
    from scheduling.rules import planning

    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    # A real hash takes a third of a second by design, and hundreds of tests create users.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.DATA_DIR = tmp_path / "data"
    settings.RECORDINGS_DIR = tmp_path / "media"
    # On a busy machine a pass would pause in the middle. Only the tests of that pause set a short limit.
    monkeypatch.setattr(planning, "PASS_SECONDS", 60.0)


@pytest.fixture
def control_ports() -> int:
    """The first of 400 ports for this test process; other test processes and other runs use others."""
    run = zlib.crc32(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())).encode())
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return 16000 + (run % 5 * 8 + place % 8) * 400


@pytest.fixture
def project(db: Any) -> Any:
    from station.models import Project

    return Project.objects.create(name="News", slug="news")


@pytest.fixture
def admin_user(db: Any) -> User:
    return User.objects.create_superuser("boss", password="pass-word-for-tests")


@pytest.fixture
def make_member(db: Any) -> Any:
    """make_member(project, "operator"): a user with that role in that project and no other rights."""
    from station.models import Membership

    def make(project: Any, role: str, name: str = "") -> User:
        user = User.objects.create_user(name or f"{role}-{project.slug}", password="pass-word-for-tests", is_staff=True)
        Membership.objects.create(project=project, user=user, role=Group.objects.get(name=role))
        return user

    return make


@pytest.fixture
def process_node(transactional_db: Any, settings: Any, control_ports: int) -> Iterator[Any]:
    """This machine as a node that is up; what a test leaves running is ended afterwards."""
    from nodes.machines import health
    from nodes.models import Node

    settings.RECORDINGS_DIR.mkdir(parents=True, exist_ok=True)
    node = Node.objects.create(
        name="local",
        address="process",
        media_dir=str(settings.RECORDINGS_DIR),
        control_port_from=control_ports,
    )
    health.check(node)
    node.refresh_from_db()
    yield node
    end_everything(node)


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def any_node(request: pytest.FixtureRequest) -> Any:
    """A node of each runtime: the test runs once on each."""
    if request.param == "process":
        return request.getfixturevalue("process_node")
    return request.getfixturevalue("make_docker_node")("a")


@pytest.fixture
def recorder(process_node: Any, project: Any) -> Any:
    from scheduling.models import Recorder

    return Recorder.objects.create(
        name="Studio A", project=project, source_type="test", picture_size="320x180", video_bitrate="300k"
    )


def end_everything(node: Any) -> None:
    """Force everything of ours that still runs on the node to end, and wait until it has."""
    from nodes.runtimes import runtime_for
    from nodes.runtimes.base import Status

    runtime = runtime_for(node)

    def is_quiet() -> bool:
        left = [seen for seen in runtime.list_ours() if seen.status is Status.RUNNING]
        for seen in left:
            runtime.stop(seen.name, force=True)
        return not left

    wait_until(is_quiet, 20, "the node's leftovers end")


@pytest.fixture
def scheduler(tmp_path: Path, transactional_db: Any) -> Iterator[Any]:
    """scheduler(): start a real `manage.py runscheduler`; it must end cleanly on SIGTERM."""
    from testing.processes import start_manage

    log = tmp_path / "scheduler.log"
    running: list[Any] = []

    def start(**extra: str) -> Any:
        running.append(start_manage("runscheduler", log=log, **extra))
        return running[-1]

    yield start
    asked = [process for process in running if process.poll() is None]
    for process in asked:
        process.terminate()
    codes = [_end(process, 120) for process in asked]
    assert all(code == 0 for code in codes), f"{codes}\n{log.read_text()}"


def _end(process: Any, seconds: float) -> int:
    """Wait for its exit code. A scheduler that is still alive is killed: it would lead in every later test."""
    try:
        return int(process.wait(seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        return int(process.wait())


_engines: dict[str, Any] = {}


def _require(tier: str, reason: str) -> None:
    """Skip the test if there is a reason; fail it if CI=true."""
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"CI=true requires the {tier} tier: {reason}")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def signal_tools() -> None:
    """The foreign senders and receivers are installed."""
    from testing.signals.tools import why_unavailable

    _require("signals", why_unavailable())


@pytest.fixture(scope="session")
def engine_tools() -> None:
    """A Docker Engine can be started, and the image of media workers is built."""
    from testing.engines import why_unavailable

    _require("Docker", why_unavailable())
    # Returns at once if the image matches the media worker in this tree.
    subprocess.run([str(Path(__file__).parent / ".ci" / "image")], check=True, timeout=600)


@pytest.fixture(scope="session")
def all_engines(engine_tools: None) -> Iterator[dict[str, Any]]:
    """Engines by name, started at first use, stopped at the end of the session."""
    yield _engines
    for engine in _engines.values():
        engine.stop()
    _engines.clear()


@pytest.fixture
def get_engine(all_engines: dict[str, Any]) -> Iterator[Any]:
    """get_engine("a"): a running, empty engine. What a test breaks is repaired afterwards."""
    from testing.engines import start_engine

    used: list[Any] = []

    def get(name: str) -> Any:
        if name not in all_engines:
            all_engines[name] = start_engine(name)
        engine = all_engines[name]
        engine.revive()
        engine.remove_all()
        used.append(engine)
        return engine

    yield get
    for engine in used:
        engine.revive()
        engine.remove_all()


@pytest.fixture
def make_docker_node(transactional_db: Any, settings: Any, control_ports: int, get_engine: Any, tmp_path: Path) -> Any:
    """make_docker_node("a"): a node on a test engine, up, with a media folder that its media workers can write to."""
    from nodes.machines import health
    from nodes.models import Node
    from testing.engines import IMAGE

    settings.WORKER_IMAGE = IMAGE

    def make(name: str = "a") -> Any:
        engine = get_engine(name)
        media = tmp_path / f"media-{name}"
        media.mkdir()
        media.chmod(0o777)
        node = Node.objects.create(
            name=f"engine-{name}",
            address=engine.address,
            media_dir=str(media),
            control_port_from=control_ports + 100 * (1 + "abc".index(name)),
            control_port_count=100,
        )
        health.check(node)
        node.refresh_from_db()
        assert node.state == Node.State.UP, node.last_error
        node.engine = engine  # type: ignore[attr-defined]  # for tests that break the engine
        return node

    return make
