"""`manage.py undrain_node NODE`: it may be given work again."""

from typing import Any

from django.core.management.base import CommandParser

from nodes.machines.node_controls import undrain
from nodes.models import Node
from playout.channels.command_support import PlayoutCommand
from station.actions.commands import BY, row_named


class Command(PlayoutCommand):
    help = "Open a drained node for work again. Nothing is moved back by itself."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("node", help="Its name.")

    def handle(self, *args: Any, **options: Any) -> None:
        node = row_named(Node, options["node"])
        if options["dry_run"]:
            self.answer(options, f"{node} would be open for work.", changed=False)
            return
        outcome = undrain(node, by=BY)  # a node that is open is no fault
        self.answer(options, outcome.text, changed=outcome.is_done)
