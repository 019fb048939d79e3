"""Workloads: other apps store what they want to run, and this package starts, watches and stops it."""

from nodes.workloads.intent import (
    NoControlPort,
    latest,
    launch_of,
    set_end,
    token_of,
    unwant,
    want,
    workload_name,
)
from nodes.workloads.supervision_policy import Supervision

__all__ = [
    "NoControlPort",
    "Supervision",
    "latest",
    "launch_of",
    "set_end",
    "token_of",
    "unwant",
    "want",
    "workload_name",
]
