"""Remote engines over mutual TLS and ssh, each with a real server and a real capture."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from nodes.machines import health
from nodes.models import Node
from nodes.runtimes import runtime_for, tunnel
from nodes.runtimes.base import Status, Unreachable
from nodes.tests.test_runtime_conformance import launch_named, wait_for_exit
from testing.certificates import Authority
from testing.engines import IMAGE
from testing.media import free_port
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker]


@pytest.fixture
def media(tmp_path: Path, settings: Any) -> Path:
    settings.WORKER_IMAGE = IMAGE
    settings.NODE_KEYS_DIR = tmp_path / "node-keys"
    folder = tmp_path / "media-remote"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def make_node(name: str, address: str, media: Path, control_ports: int) -> Node:
    # Not a port that the kernel may use for an outgoing connection.
    return Node.objects.create(name=name, address=address, media_dir=str(media), control_port_from=control_ports)


def capture_and_stop(node: Node) -> dict[str, Any]:
    """A whole capture over this connection: config through standard input, stop, log, removal."""
    runtime = runtime_for(node)
    launch = launch_named(node, f"airlock-{node.name}")
    assert runtime.start(launch).status is Status.RUNNING
    folder = Path(node.media_dir) / "conformance"
    wait_until(lambda: any(path.stat().st_size for path in folder.glob("*.ts")), 30, "bytes arrive")
    runtime.stop(launch.name)
    assert wait_for_exit(runtime, launch.name).exit_code == 0
    final = json.loads(runtime.logs(launch.name).splitlines()[-1])["final"]
    runtime.remove(launch.name)
    assert runtime.list_ours() == []
    return dict(final)


def test_an_engine_over_mutual_tls(
    get_engine: Any, media: Path, tmp_path: Path, settings: Any, control_ports: int
) -> None:
    """With our certificate everything works; without it, or with another CA's, nothing does."""
    engine = get_engine("c")
    authority = Authority(tmp_path / "ca")
    stranger = Authority(tmp_path / "stranger")
    port = free_port()
    engine.process.terminate()
    engine.process.wait(30)
    engine.start(*authority.serve(f"tcp://127.0.0.1:{port}"))
    keys = settings.NODE_KEYS_DIR / "secure"
    node = make_node("secure", f"tcp://127.0.0.1:{port}", media, control_ports)
    try:
        for signer in (stranger, authority):
            signer.give_keys(keys)
            (keys / "ca.pem").write_bytes((authority.folder / "ca.pem").read_bytes())
            answered = health.check(Node.objects.get(pk=node.pk))
            assert answered is (signer is authority), Node.objects.get(pk=node.pk).last_error

        assert capture_and_stop(node)["frames"] > 0
    finally:
        engine.process.terminate()
        engine.process.wait(30)
        engine.start()


def test_an_engine_over_ssh(
    get_engine: Any,
    media: Path,
    ssh_server: tuple[int, Path],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    control_ports: int,
) -> None:
    """The same capture through ssh; a killed ssh process is started again."""
    engine = get_engine("a")
    port, config = ssh_server
    monkeypatch.setattr(tunnel, "REMOTE_SOCKET", str(engine.socket))
    keys = settings.NODE_KEYS_DIR / "far"
    keys.mkdir(parents=True)
    (keys / "ssh_config").write_text(config.read_text())
    node = make_node("far", f"ssh://root@127.0.0.1:{port}", media, control_ports)

    assert health.check(Node.objects.get()) is True, Node.objects.get().last_error
    assert capture_and_stop(node)["frames"] > 0

    [line] = tunnel._tunnels.values()
    os.kill(line.process.pid, signal.SIGKILL)
    line.process.wait(5)
    wait_until(lambda: _answers(node), 20, "the ssh connection is back")


def _answers(node: Node) -> bool:
    try:
        return bool(runtime_for(node).ping())
    except Unreachable:
        return False


def test_an_ssh_server_that_rejects_our_key_is_reported(
    media: Path, ssh_server: tuple[int, Path], settings: Any, control_ports: int
) -> None:
    port, _ = ssh_server
    keys = settings.NODE_KEYS_DIR / "far"
    keys.mkdir(parents=True)
    (keys / "ssh_config").write_text("IdentitiesOnly yes\nIdentityFile /nonexistent\nStrictHostKeyChecking yes\n")
    make_node("far", f"ssh://root@127.0.0.1:{port}", media, control_ports)

    assert health.check(Node.objects.get()) is False

    assert "The ssh connection failed" in Node.objects.get().last_error
