"""`manage.py drain_node NODE`: give a node no new work and move its channels away one by one."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from nodes.machines.node_controls import drain
from nodes.models import Node, Workload
from playout.channels import controls
from playout.channels.command_support import PlayoutCommand, planned_move
from playout.models import Channel
from station.actions.commands import BY, row_named


class Command(PlayoutCommand):
    help = "Give a node no new work and move its channels elsewhere. Recordings there run to their end."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("node", help="The node's name.")
        parser.add_argument("--keep-channels", action="store_true", help="Leave the channels where they are.")

    def handle(self, *args: Any, **options: Any) -> None:
        node = row_named(Node, options["node"])
        owners = Workload.objects.live().filter(node=node, is_wanted=True).values_list("owner", flat=True)
        on_air = Channel.objects.filter(state=Channel.State.ON_AIR)
        channels = [] if options["keep_channels"] else [each for each in on_air if each.owner in set(owners)]
        if options["dry_run"]:
            self._say_plan(node, channels, options)
            return
        drain(node, by=BY)
        moved: list[str] = []
        left: list[str] = []
        for channel in channels:
            outcome = controls.move(channel, by=BY, reason=f"{node} is drained")
            (moved if outcome.is_good else left).append(outcome.text)
        words = [f"{node} gets no new work.", *moved, *left]
        self.answer(options, "\n".join(words), moved=moved, not_moved=left)
        if left:  # an error exit: the machine is probably about to be switched off
            raise CommandError(f"{len(left)} of its channels could not be moved and are still on {node}.")

    def _say_plan(self, node: Node, channels: list[Channel], options: dict[str, Any]) -> None:
        moved: list[str] = []
        left: list[str] = []
        for channel in channels:
            try:
                moved.append(planned_move(channel))
            except CommandError as refusal:
                left.append(str(refusal))
        words = [f"{node} would get no new work.", *(moved + left or ["No channel is on it."])]
        self.answer(options, "\n".join(words), moved=moved, not_moved=left)
