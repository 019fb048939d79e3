"""`manage.py failover_drill NAME`: move a channel (and back) and print how long it was off air."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from nodes import workloads
from playout.channels import controls
from playout.channels.command_support import PlayoutCommand, planned_move
from playout.models import Channel, Recovery
from station.actions.commands import row_named


class Command(PlayoutCommand):
    help = "Failover drill: move a channel to another node (and back with --back), and measure the seconds off air."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("channel", help="The channel's name. It is off air for a few seconds each time.")
        parser.add_argument("--back", action="store_true", help="Move it back afterwards.")

    def handle(self, *args: Any, **options: Any) -> None:
        channel = row_named(Channel, options["channel"])
        if channel.state != Channel.State.ON_AIR:
            raise CommandError(f"{channel} is {channel.state_word}: only a channel on air can be moved.")
        first = workloads.latest(channel.owner)
        if options["dry_run"]:
            self.answer(options, planned_move(channel), drills=[])
            return
        drills = [self._move(channel, None)]
        if options["back"] and first is not None:
            drills.append(self._move(channel, first.node))
        text = "\n".join(f"{row['from']} -> {row['to']}: {row['off_air_seconds']:.1f} s off air" for row in drills)
        self.answer(options, text, drills=drills)

    def _move(self, channel: Channel, to_node: Any) -> dict[str, Any]:
        self.carry_out(controls.move, channel, to_node=to_node, reason="drill")
        done = Recovery.objects.filter(channel=channel).select_related("from_node", "to_node").latest("noticed_at")
        return {"from": str(done.from_node), "to": str(done.to_node), "off_air_seconds": done.off_air_seconds}
