"""What the management commands of playout share: finding things by name, and answering in words or JSON."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from nodes import workloads
from nodes.models import Node
from playout.channels import failover
from playout.models import Channel
from station.clock import database_now

BY = "command line"


class PlayoutCommand(BaseCommand):
    """Each has --json; those that change something have --dry-run."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Answer as JSON.")
        parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")

    def answer(self, options: dict[str, Any], text: str, **facts: Any) -> None:
        self.stdout.write(json.dumps({"text": text, **facts}, default=str) if options["json"] else text)


def planned_move(channel: Channel, to_node: Node | None = None) -> str:
    """What a move would do, for --dry-run: the same refusals as the real one. Raises CommandError."""
    workload = workloads.latest(channel.owner)
    here = workload.node if workload is not None else "?"
    try:
        target = failover.target_of(channel, database_now(), to_node)
    except failover.CannotMove as refusal:
        raise CommandError(f"{channel} would not be moved: {refusal}.") from refusal
    return f"{channel} would be moved from {here} to {target}."


def channel_named(name: str) -> Channel:
    channel = Channel.objects.filter(name=name).first()
    if channel is None:
        known = ", ".join(Channel.objects.values_list("name", flat=True)) or "none"
        raise CommandError(f"There is no channel called {name}. There are: {known}.")
    return channel


def node_named(name: str) -> Node:
    node = Node.objects.filter(name=name).first()
    if node is None:
        known = ", ".join(Node.objects.values_list("name", flat=True)) or "none"
        raise CommandError(f"There is no node called {name}. There are: {known}.")
    return node
