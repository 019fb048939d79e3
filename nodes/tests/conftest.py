"""Fixtures of the tests of nodes: a real sshd."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.runtimes import tunnel
from testing.media import free_port
from testing.waiting import wait_until


@pytest.fixture
def ssh_server(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A real sshd on a loopback port with its own keys; yields the port and a client's ssh_config."""
    if not Path("/usr/sbin/sshd").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("CI=true requires sshd (.ci/install installs it)")
        pytest.skip("no sshd on this machine")
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=30)
    (folder / "authorized").write_text((folder / "client.pub").read_text())
    port = free_port()
    public = (folder / "host.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder / 'client'}\nIdentitiesOnly yes\nUserKnownHostsFile {folder / 'known_hosts'}\n"
    )
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        f"PidFile {folder / 'pid'}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
    wait_until(lambda: _listens(port), 20, "sshd listens")
    yield port, folder / "ssh_config"
    tunnel.close_all()
    server.terminate()
    server.wait(10)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
