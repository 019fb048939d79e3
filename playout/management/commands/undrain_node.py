"""`manage.py undrain_node NODE`: it may be given work again."""

from typing import Any

from django.core.management.base import CommandParser

from nodes.machines.node_controls import set_draining
from playout.channels.command_support import BY, PlayoutCommand, node_named


class Command(PlayoutCommand):
    help = "Open a drained node for work again. Nothing is moved back by itself."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("node", help="Its name.")

    def handle(self, *args: Any, **options: Any) -> None:
        node = node_named(options["node"])
        if options["dry_run"]:
            self.answer(options, f"{node} would be open for work.", changed=False)
            return
        changed, _ = set_draining(node, False, BY)
        self.answer(options, f"{node} is open for work." if changed else f"{node} was not drained.", changed=changed)
