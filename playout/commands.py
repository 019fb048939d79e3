"""What the management commands of playout share: finding things by name, and answering in words or JSON."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from nodes.models import Node
from playout.models import Channel

BY = "command line"


class PlayoutCommand(BaseCommand):
    """Each has --json; those that change something have --dry-run."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Answer as JSON.")
        parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")

    def answer(self, options: dict[str, Any], text: str, **facts: Any) -> None:
        self.stdout.write(json.dumps({"text": text, **facts}, default=str) if options["json"] else text)


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
