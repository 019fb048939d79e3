"""The list of our containers, as a Docker Engine gives it."""

import json
from typing import Any

from nodes.runtimes.base import NodeAnswer, Observed, Status
from nodes.runtimes.container_config import LABEL_INSTALLATION, identity_of
from nodes.runtimes.engine_http import EngineConnection

LIST = "/containers/json"


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
