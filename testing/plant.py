"""Many machines in one process: stand-ins for Docker Engines and media workers. Some of them accept a connection and
never answer.

Started as `python -m testing.plant FOLDER GOOD SILENT`: engine sockets `FOLDER/0.sock` and so on, the silent ones last.
An engine starts a "container" by opening its control port, which answers /status with growing frames. Workloads that
run already are named in `FOLDER/workers.json`: [[owner, generation, token, port, name, engine], …]; those of silent
engines are silent too.
"""

import asyncio
import contextlib
import json
import re
import socket
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from worker.wire import codec
from worker.wire.configuration import DiskAnswer
from worker.wire.status import PlayoutStatus

VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}


@dataclass
class Container:
    name: str
    labels: dict[str, str]
    status: str = "running"
    control: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def summary(self) -> dict[str, Any]:
        return {"Id": self.name, "Names": [f"/{self.name}"], "Labels": self.labels, "State": self.status}

    def details(self) -> dict[str, Any]:
        state = {"Status": self.status, "ExitCode": 0, "OOMKilled": False, "Error": ""}
        return {
            "Id": self.name,
            "Name": f"/{self.name}",
            "Config": {"Labels": self.labels, "Tty": True},
            "State": state,
        }

    def worker_status(self) -> codec.Json:
        status = PlayoutStatus(
            owner=self.control["owner"],
            generation=self.control["generation"],
            state="playing",
            frames=int((time.monotonic() - self.began) * 25) + 1,
            last_frame_age_seconds=0.02,
        )
        return codec.message(status)


class Engine:
    """Answers what Airlock asks of a Docker Engine."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.containers: dict[str, Container] = {}
        self._servers: list[asyncio.Server] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, target, _ = head.split(" ", 2)
                body = await reader.readexactly(_length(head))
                path = re.sub(r"^/v[0-9.]+", "", urlsplit(target).path)
                if path == "/events":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                    await asyncio.sleep(3600)
                if path.endswith("/attach"):
                    await self._attach(path.split("/")[2], reader, writer)
                    break
                query = parse_qs(urlsplit(target).query)
                status, answer = self._answer(method, path, query, json.loads(body or b"{}"))
                writer.write(_http(status, answer))
                await writer.drain()
        writer.close()

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path == "/version":
            return 200, VERSION
        if path == "/containers/json":
            return 200, [each.summary() for each in self.containers.values()]
        if path == "/containers/create":
            return self._create(query["name"][0], body["Labels"])
        name, _, verb = path.removeprefix("/containers/").partition("/")
        container = self.containers.get(name)
        if container is None:
            return 404, {"message": f"No such container: {name}"}
        if method == "DELETE":
            del self.containers[name]
        elif verb == "start":
            container.status = "running"
        elif verb == "kill":
            container.status = "exited"
        elif verb == "json":
            return 200, container.details()
        elif verb == "wait":
            return 200, {"StatusCode": 0}
        return (200, codec.message(DiskAnswer(10**12, 10**12, datetime.now(UTC)))) if verb == "logs" else (204, None)

    def _create(self, name: str, labels: dict[str, str]) -> tuple[int, Any]:
        if name in self.containers:
            return 409, {"message": "name in use"}
        self.containers[name] = Container(name, labels, status="created")
        return 201, {"Id": name, "Warnings": []}

    async def _attach(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Standard input of the container: one line with its configuration."""
        writer.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        await writer.drain()
        line = await reader.readline()
        await self.open_worker(self.containers[name], json.loads(line)["control"])

    async def open_worker(self, container: Container, control: dict[str, Any]) -> None:
        container.control, container.began = control, time.monotonic()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(_http(200, container.worker_status(), version="1.0"))
                await writer.drain()
            writer.close()

        self._servers.append(await asyncio.start_server(answer, self.host, control["port"]))


def _length(head: str) -> int:
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0


def _http(status: int, answer: Any, version: str = "1.1") -> bytes:
    body = b"" if answer is None else json.dumps(answer).encode()
    kind = f"HTTP/{version} {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return kind.encode() + body


def listen_silently(family: int, address: Any) -> socket.socket:
    """Connections are accepted by the kernel; nobody reads them."""
    line = socket.socket(family)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    line.bind(address)
    line.listen(1024)
    return line


async def run(folder: Path, good: int, silent: int) -> None:
    engines, kept = [Engine("127.0.0.1") for _ in range(good)], []
    workers: list[list[Any]] = json.loads((folder / "workers.json").read_text())
    for owner, generation, token, port, name, engine in workers:
        if engine >= good:
            kept.append(listen_silently(socket.AF_INET, ("127.0.0.1", port)))
            continue
        container = Container(name, {"airlock.owner": owner, "airlock.generation": str(generation)})
        engines[engine].containers[name] = container
        control = {"owner": owner, "generation": generation, "token": token, "port": port}
        await engines[engine].open_worker(container, control)
    for number in range(good, good + silent):
        kept.append(listen_silently(socket.AF_UNIX, str(folder / f"{number}.sock")))
    for number, each in enumerate(engines):
        await asyncio.start_unix_server(each.serve, folder / f"{number}.sock")
    (folder / "ready").touch()
    await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
