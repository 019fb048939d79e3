"""`manage.py failover_channel NAME [--to NODE]`: move a channel to another machine now."""

from typing import Any

from django.core.management.base import CommandParser

from nodes.models import Node
from playout.channels import controls
from playout.channels.command_support import PlayoutCommand, planned_move
from playout.models import Channel
from station.actions.commands import row_named


class Command(PlayoutCommand):
    help = "Move a channel that is on air or failing over to another node. It continues at the right place."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("channel", help="The channel's name.")
        parser.add_argument("--to", help="The node to move it to (default: any other that is up).")

    def handle(self, *args: Any, **options: Any) -> None:
        channel = row_named(Channel, options["channel"])
        to_node = row_named(Node, options["to"]) if options["to"] else None
        if options["dry_run"]:
            self.answer(options, planned_move(channel, to_node), moved=False)
            return
        outcome = self.carry_out(controls.move, channel, to_node=to_node, reason="moved from the command line")
        self.answer(options, outcome.text, moved=True)
