"""`manage.py undrain_node NODE`: let a drained node take new work again."""

from typing import Any

from django.core.management.base import CommandParser

from nodes.machines.node_controls import undrain
from nodes.models import Node
from playout.channels.command_support import PlayoutCommand
from station.actions.commands import BY, row_named


class Command(PlayoutCommand):
    help = "Let a drained node take new work again. Nothing is moved back automatically."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("node", help="The node's name.")

    def handle(self, *args: Any, **options: Any) -> None:
        node = row_named(Node, options["node"])
        if options["dry_run"]:
            self.answer(options, f"{node} would be open for work.", changed=False)
            return
        outcome = undrain(node, by=BY)  # a node that is not drained is not an error
        self.answer(options, outcome.text, changed=outcome.is_done)
