"""`manage.py failover_channel NAME [--to NODE]`: move a channel to another machine now."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from playout.channels import controls
from playout.channels.command_support import BY, PlayoutCommand, channel_named, node_named, planned_move
from playout.models import Channel


class Command(PlayoutCommand):
    help = "Move a channel that is on air to another node; it goes on at the right place."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("channel", help="Its name.")
        parser.add_argument("--to", help="The node to move it to (default: any other that is up).")

    def handle(self, *args: Any, **options: Any) -> None:
        channel = channel_named(options["channel"])
        to_node = node_named(options["to"]) if options["to"] else None
        if channel.state != Channel.State.ON_AIR:
            raise CommandError(f"{channel} is {channel.state_word}: only what is on air can be moved.")
        if options["dry_run"]:
            self.answer(options, planned_move(channel, to_node), moved=False)
            return
        outcome = controls.move(channel, by=BY, to_node=to_node, reason="moved from the command line")
        if not outcome.is_good:
            raise CommandError(outcome.text)
        self.answer(options, outcome.text, moved=True)
