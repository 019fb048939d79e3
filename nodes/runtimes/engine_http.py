"""A kept HTTP connection to a Docker Engine, for the calls that an idle system makes: checks and the event stream.

The SDK needs four times the processor time for the same call. Everything else goes through the SDK
(`nodes.runtimes.docker`). The exceptions are those of `nodes.runtimes.base`.
"""

import atexit
import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings

from nodes.addresses import parse_node_address
from nodes.runtimes import tunnel
from nodes.runtimes.base import NodeAnswer, OutcomeUnknown, Refused, Unreachable, readable
from nodes.runtimes.free_clients import FreeClients
from station.database.roles import release_session

KEY_FILES = ("ca.pem", "cert.pem", "key.pem")
# The last three: an answer that is no such answer.
FAULTS = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError)
# What a connection that the engine closed between two calls looks like.
CLOSED = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class NotThere(Refused):
    """The engine has no such container or image."""


class EngineConnection:
    """Not safe to use from several threads. It connects at its first call, and again when the engine was restarted."""

    def __init__(self, url: str, keys_dir: Path) -> None:
        self.version = ""
        self._prefix = ""
        self._http = _http(url, keys_dir)

    def get(self, path: str, **query: str) -> Any:
        """The answer to a call that changes nothing, from JSON."""
        is_kept = self.is_open()
        try:
            return json.loads(self._ask(path, query).read())
        except CLOSED:
            if not is_kept:
                raise
            self._http.close()
            return json.loads(self._ask(path, query).read())

    def call(self, method: str, path: str, body: Any = None, *, seconds: float = 0.0, **query: str) -> bytes:
        """A call that changes something: never repeated. After a fault the next call uses a new connection."""
        if not self.is_open():
            self._connect()
        try:
            self._wait_at_most(seconds or settings.NODE_CALL_SECONDS)
            content, headers = (None, {}) if body is None else (json.dumps(body), {"Content-Type": "application/json"})
            self._http.request(method, self._target(path, query), content, headers)
            return self._answer().read()
        except FAULTS:
            self._http.close()
            raise

    def is_open(self) -> bool:
        """Nobody asked anything, so something to read can only be the end of the connection."""
        if self._http.sock is not None and readable([self._http.sock], 0.0):
            self._http.close()
        return self._http.sock is not None

    def send(self, path: str, **query: str) -> None:
        """Begin a call on an open connection; `receive` reads its answer."""
        self._http.request("GET", self._target(path, query))

    def receive(self, seconds: float) -> Any:
        self._http.sock.settimeout(seconds)
        return json.loads(self._answer().read())

    def fileno(self) -> int:
        return int(self._http.sock.fileno())

    def follow(self, path: str, *, silence_seconds: float, **query: str) -> Iterator[Any]:
        """The lines of an answer that does not end, from JSON. Raises TimeoutError after that much silence."""
        self._connect()
        line: socket.socket = self._http.sock
        with self._ask(path, query) as answer:
            line.settimeout(silence_seconds)
            for text in answer:
                if text.strip():
                    yield json.loads(text)

    def close(self) -> None:
        self._http.close()

    def _ask(self, path: str, query: dict[str, str]) -> http.client.HTTPResponse:
        if self._http.sock is None:
            self._connect()
        return self._send(self._target(path, query))

    def _target(self, path: str, query: dict[str, str]) -> str:
        return f"{self._prefix}{path}{'?' if query else ''}{urlencode(query)}"

    def _connect(self) -> None:
        """An engine that is updated closes its connections, so its version is asked for once for each."""
        self._http.timeout = settings.NODE_CALL_SECONDS
        try:
            self._http.connect()
        except TimeoutError as error:
            raise Unreachable("The engine cannot be reached: no connection in time.") from error
        found: dict[str, Any] = json.loads(self._send("/version").read())
        self.version = f"Docker {found.get('Version', '?')}"
        self._prefix = f"/v{found['ApiVersion']}"

    def _wait_at_most(self, seconds: float) -> None:
        if self._http.sock is None:  # the answer before said "Connection: close"
            self._http.connect()
        self._http.sock.settimeout(seconds)

    def _send(self, target: str) -> http.client.HTTPResponse:
        self._wait_at_most(settings.NODE_CALL_SECONDS)
        self._http.request("GET", target)
        return self._answer()

    def _answer(self) -> http.client.HTTPResponse:
        answer = self._http.getresponse()
        if not http.client.OK <= answer.status <= http.client.NO_CONTENT:
            text = answer.read()[:500].decode(errors="replace") or answer.reason
            kind = NotThere if answer.status == http.client.NOT_FOUND else Refused
            raise kind(f"The engine refused: {text}")
        return answer


class _UnixConnection(http.client.HTTPConnection):
    """Over a socket of this machine, or of an ssh process that forwards it."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(self.timeout)
        try:
            line.connect(self._path)
        except OSError as error:
            line.close()
            raise Unreachable(f"No engine answers at {self._path}: {error.strerror or error}.") from error
        self.sock = line


def _http(url: str, keys_dir: Path) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path)
    check_keys(keys_dir)
    context = ssl.create_default_context(cafile=str(keys_dir / "ca.pem"))
    context.load_cert_chain(keys_dir / "cert.pem", keys_dir / "key.pem")
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context)


def check_keys(keys_dir: Path) -> None:
    missing = [name for name in KEY_FILES if not (keys_dir / name).is_file()]
    if missing:
        raise Unreachable(f"Mutual TLS needs {', '.join(missing)} in {keys_dir}.")


def engine_url(address: str, keys_dir: Path) -> str:
    """Where the engine answers from here: an ssh address is forwarded to a socket of this machine."""
    if parse_node_address(address).scheme != "ssh":
        return address
    return f"unix://{tunnel.local_socket(address, keys_dir, settings.NODE_CALL_SECONDS)}"


connections: FreeClients[EngineConnection] = FreeClients()
atexit.register(connections.close_all)


class PendingCall:
    """A call on a kept connection, whose answer comes later. It must be read or dropped."""

    def __init__(self, address: str, kept: EngineConnection, read: Callable[[EngineConnection, Any], NodeAnswer]):
        self._address, self._kept, self._read = address, kept, read

    def fileno(self) -> int:
        return self._kept.fileno()

    def read(self, seconds: float) -> NodeAnswer:
        """Its answer has begun to arrive; raises Unreachable if the rest does not come."""
        is_usable = False
        try:
            answer = self._read(self._kept, self._kept.receive(seconds))
            is_usable = True
            return answer
        except FAULTS as error:
            raise Unreachable(f"The engine cannot be reached: {error or type(error).__name__}") from error
        finally:
            connections.give_back(self._address, self._address, self._kept, is_usable=is_usable)

    def drop(self) -> None:
        self._kept.close()


def begin_call(
    address: str, read: Callable[[EngineConnection, Any], NodeAnswer], path: str, **query: str
) -> PendingCall | None:
    """Ask without waiting for anything. None if there is no open connection, or if ssh may have to open one."""
    if parse_node_address(address).scheme == "ssh":
        return None
    kept = connections.take(address, address)
    if kept is None:
        return None
    with contextlib.suppress(*FAULTS):
        if kept.is_open():
            kept.send(path, **query)
            return PendingCall(address, kept, read)
    kept.close()
    return None


@contextlib.contextmanager
def engine_connection(address: str, keys_dir: Path) -> Iterator[EngineConnection]:
    """A connection for this block alone. Every error in the block is raised as a RuntimeFault."""
    release_session()
    found: EngineConnection | None = None
    is_usable = False
    try:
        url = engine_url(address, keys_dir)
        found = connections.take(address, url) or EngineConnection(url, keys_dir)
        yield found
        is_usable = True
        tunnel.note_answer(address)
    except TimeoutError as error:
        tunnel.note_failure(address)
        raise OutcomeUnknown("The engine did not answer in time.") from error
    except Refused:
        is_usable = True
        raise
    except FAULTS as error:
        tunnel.note_failure(address)
        raise Unreachable(f"The engine cannot be reached: {error or type(error).__name__}") from error
    finally:
        if found is not None:
            connections.give_back(address, url, found, is_usable=is_usable)
