"""The Docker runtime. Only this module imports `docker`, and docker's exceptions do not leave it."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import docker
import requests
from django.conf import settings
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.tls import TLSConfig

from nodes import failpoints
from nodes.runtimes import tunnel
from nodes.runtimes.base import (
    Disk,
    Identity,
    ImageMissing,
    Launch,
    MayNotAct,
    NodeAnswer,
    Observed,
    OutcomeUnknown,
    PendingCheck,
    Refused,
    Runtime,
    RuntimeFault,
    Status,
    Unreachable,
)
from nodes.runtimes.container_config import Place, container_config, identity_of
from nodes.runtimes.container_list import LIST, labelled, read_list, read_output, status_of
from nodes.runtimes.engine_http import EngineConnection, NotThere, begin_call, check_keys, engine_connection, engine_url
from nodes.runtimes.free_clients import FreeClients
from station import precedence
from station.database.roles import release_session
from worker.wire import codec
from worker.wire.configuration import DiskAnswer

PROBE_SECONDS = 20
LISTEN_SECONDS = 120


class EngineClient(docker.APIClient):
    """A client that ignores proxy and CA settings in the environment, which are not meant for engines."""

    trust_env = property(lambda self: False, lambda self, value: None)


clients: FreeClients[docker.APIClient] = FreeClients()


class DockerRuntime(Runtime):
    def __init__(
        self, installation: Callable[[], str], *, address: str, media_dir: str, network: str, keys_dir: Path
    ) -> None:
        super().__init__(installation)
        self.address = address
        self.keys_dir = keys_dir
        self.place = Place(image=settings.WORKER_IMAGE, media_dir=media_dir, network=network)

    def ping(self) -> str:
        with engine_connection(self.address, self.keys_dir) as engine:
            engine.get("/version")
            return engine.version

    def check(self, label: str | None) -> NodeAnswer:
        """One call: an engine that lists its containers answers."""
        if label is None:
            return NodeAnswer(self.ping(), [])
        with engine_connection(self.address, self.keys_dir) as engine:
            return read_list(engine, engine.get(LIST, all="1", filters=labelled(label)))

    def begin_check(self, label: str | None) -> PendingCheck | None:
        if label is None:
            return None
        return begin_call(self.address, read_list, LIST, all="1", filters=labelled(label))

    def list_ours(self) -> list[Observed]:
        return self.check(self.installation).containers

    def inspect(self, name: str) -> Observed | None:
        with self._engine() as engine:
            return self._inspect(engine, name)

    def start(self, launch: Launch) -> Observed:
        with self._engine() as engine:
            try:
                engine.create_container_from_config(container_config(launch, self.place), name=launch.name)
            except ImageNotFound as error:
                raise ImageMissing(
                    f"The media worker image {self.place.image} is not on this node. Build or load it there first."
                ) from error
            except APIError as error:
                if error.status_code != requests.codes.conflict:
                    raise
            failpoints.reach(failpoints.START_AFTER_CREATE)
            observed = self._inspect(engine, launch.name)
            if observed is None:
                raise OutcomeUnknown(f"{launch.name} was created but cannot be found.")
            self.check_ours(observed, launch)
            if observed.status is Status.CREATED:
                self._start_and_feed(engine, launch)
                observed = self._inspect(engine, launch.name)
                if observed is None:
                    raise OutcomeUnknown(f"{launch.name} was started but cannot be found.")
            return observed

    def stop(self, name: str, *, force: bool = False) -> None:
        with self._engine() as engine:
            observed = self._inspect(engine, name)
            if observed is None:
                return
            self.check_ours(observed)
            try:
                engine.kill(name, signal="SIGKILL" if force else "SIGTERM")
            except APIError as error:
                if error.status_code != requests.codes.conflict:  # 409: it is no longer running
                    raise

    def remove(self, name: str) -> None:
        with self._engine() as engine:
            observed = self._inspect(engine, name)
            if observed is None:
                return
            self.check_ours(observed)
            if observed.status is Status.RUNNING:
                raise Refused(f"{name} is still running.")
            try:
                engine.remove_container(name, v=True, force=observed.status is Status.CREATED)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != requests.codes.conflict:  # 409: it is being removed already
                    raise

    def logs(self, name: str, lines: int = 100) -> str:
        with self._engine() as engine:
            try:
                text: bytes = engine.logs(name, tail=lines)
            except NotFound:
                return ""
            return text.decode(errors="replace")

    def follow_ends(self) -> Iterator[str]:
        """On a separate connection, which is silent while no container ends, and also when the network is cut.

        So it raises after LISTEN_SECONDS of silence, and the caller starts it again.
        """
        wanted = labelled(self.installation, event=["die", "oom"])
        try:
            url = engine_url(self.address, self.keys_dir)
            with contextlib.closing(EngineConnection(url, self.keys_dir)) as engine:
                for event in engine.follow("/events", silence_seconds=LISTEN_SECONDS, filters=wanted):
                    identity = identity_of(event.get("Actor", {}).get("Attributes"))
                    if identity is not None:
                        yield identity.owner
        except (HTTPException, OSError, ValueError, LookupError) as error:
            raise Unreachable(f"The engine's event stream ended: {error}") from error

    def check_ready(self) -> None:
        with self._engine() as engine:
            try:
                engine.inspect_image(self.place.image)
            except ImageNotFound as error:
                raise ImageMissing(f"The media worker image {self.place.image} is not on this node.") from error

    def free_disk(self) -> Disk:
        """Measured by a short-lived container, because the engine does not report it. A leftover one is an orphan."""
        identity = Identity(self.installation, owner="probe", generation=0)
        launch = Launch(f"airlock-{self.installation[:8]}-probe-{uuid4().hex[:8]}", identity, "disk", config="{}")
        path = f"/containers/{launch.name}"
        with engine_connection(self.address, self.keys_dir) as engine:
            try:
                engine.call("POST", "/containers/create", container_config(launch, self.place), name=launch.name)
            except NotThere as error:
                raise ImageMissing(f"The media worker image {self.place.image} is not on this node.") from error
            try:
                engine.call("POST", f"{path}/start")
                engine.call("POST", f"{path}/wait", seconds=PROBE_SECONDS)
                printed = read_output(engine.call("GET", f"{path}/logs", stdout="1", stderr="0"))
            finally:
                engine.call("DELETE", path, v="1", force="1")
        try:
            answer = codec.loads(DiskAnswer, printed)
            return Disk(answer.free_bytes, answer.total_bytes, answer.node_at)
        except codec.WireError as error:
            raise Refused(f"The disk probe gave no usable result: {printed.strip()[:200] or 'no output'}") from error

    def _start_and_feed(self, engine: docker.APIClient, launch: Launch) -> None:
        """Attach, then start, then send the config through standard input. Attaching first loses nothing."""
        stream = engine.attach_socket(launch.name, params={"stdin": 1, "stream": 1})
        raw = getattr(stream, "_sock", stream)
        try:
            try:
                engine.start(launch.name)
            except APIError as error:
                raise Refused(f"The container did not start: {error.explanation}") from error
            failpoints.reach(failpoints.START_AFTER_START)
            raw.sendall(launch.config.encode() + b"\n")
        finally:
            # The SDK takes the socket from inside its response: close the response first.
            response = getattr(stream, "_response", None)
            if response is not None:
                response.close()
            raw.close()

    def _inspect(self, engine: docker.APIClient, name: str) -> Observed | None:
        try:
            found: dict[str, Any] = engine.inspect_container(name)
        except NotFound:
            return None
        state = found["State"]
        status = status_of(state["Status"])
        return Observed(
            name=name,
            identity=identity_of(found["Config"].get("Labels")),
            status=status,
            exit_code=state.get("ExitCode") if status is Status.EXITED else None,
            is_out_of_memory=bool(state.get("OOMKilled")),
            error=state.get("Error") or "",
        )

    @contextlib.contextmanager
    def _engine(self) -> Iterator[docker.APIClient]:
        """A client for this block alone. Every error in the block is raised as a RuntimeFault."""
        with contextlib.suppress(MayNotAct):
            _ = self.installation  # read it first: a query in the block would hold a session during the calls
        release_session()
        precedence.give_way()
        client: docker.APIClient | None = None
        is_usable = False
        try:
            url = engine_url(self.address, self.keys_dir)
            client = clients.take(self.address, url) or self._connect(url)
            yield client
            is_usable = True
            tunnel.note_answer(self.address)
        except RuntimeFault:
            is_usable = True
            raise
        except APIError as error:
            is_usable = True
            raise Refused(f"The engine refused: {error.explanation or error}") from error
        except requests.exceptions.ReadTimeout as error:
            tunnel.note_failure(self.address)
            raise OutcomeUnknown("The engine did not answer in time.") from error
        except (DockerException, requests.exceptions.RequestException, OSError) as error:
            tunnel.note_failure(self.address)
            raise Unreachable(f"The engine cannot be reached: {error}") from error
        finally:
            if client is not None:
                clients.give_back(self.address, url, client, is_usable=is_usable)

    def _connect(self, base_url: str) -> docker.APIClient:
        if base_url.startswith("unix://"):
            _check_socket(urlsplit(base_url).path)
        tls: TLSConfig | None = None
        if base_url.startswith("tcp://"):
            pair = (str(self.keys_dir / "cert.pem"), str(self.keys_dir / "key.pem"))
            check_keys(self.keys_dir)
            tls = TLSConfig(client_cert=pair, ca_cert=str(self.keys_dir / "ca.pem"), verify=True)
        return EngineClient(base_url=base_url, version="auto", timeout=settings.NODE_CALL_SECONDS, tls=tls or False)


def _check_socket(path: str) -> None:
    """Check that the socket accepts connections: the error is clearer, and the SDK leaks a socket when it fails."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(settings.NODE_CALL_SECONDS)
        try:
            probe.connect(path)
        except OSError as error:
            raise Unreachable(f"No engine answers at {path}: {error.strerror or error}.") from error
