"""What a Docker Engine says about our containers: the list, and the output of one."""

import json
from typing import Any

from nodes.runtimes.base import NodeAnswer, Observed, Status
from nodes.runtimes.container_config import LABEL_INSTALLATION, identity_of
from nodes.runtimes.engine_http import EngineConnection

LIST = "/containers/json"
FRAME_HEAD = 8


def labelled(label: str, **more: list[str]) -> str:
    """The engine's filter for containers of this installation."""
    return json.dumps({"label": [f"{LABEL_INSTALLATION}={label}"], **more})


def read_list(engine: EngineConnection, rows: list[dict[str, Any]]) -> NodeAnswer:
    return NodeAnswer(engine.version, [_observed(row) for row in rows])


def _observed(row: dict[str, Any]) -> Observed:
    return Observed(
        name=row["Names"][0].lstrip("/") if row.get("Names") else row["Id"],
        identity=identity_of(row.get("Labels")),
        status=status_of(row.get("State", "")),
    )


def status_of(word: str) -> Status:
    if word == "created":
        return Status.CREATED
    if word in {"running", "paused", "restarting"}:
        return Status.RUNNING
    return Status.EXITED


def read_output(content: bytes) -> str:
    """The output of a container without a terminal comes in frames: a stream number, three zeros, a length, bytes."""
    text = b""
    while len(content) >= FRAME_HEAD and content[1:4] == b"\0\0\0":
        length = int.from_bytes(content[4:FRAME_HEAD], "big")
        text, content = text + content[FRAME_HEAD : FRAME_HEAD + length], content[FRAME_HEAD + length :]
    return (text + content).decode(errors="replace")
