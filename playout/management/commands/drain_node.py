"""`manage.py drain_node NODE`: no new work there, and its channels move away one after the other."""

from typing import Any

from django.core.management.base import CommandParser

from nodes.models import Workload
from nodes.upkeep import set_draining
from playout import transport
from playout.commands import BY, PlayoutCommand, node_named
from playout.models import Channel


class Command(PlayoutCommand):
    help = "Give a node no new work and move its channels elsewhere. Recordings there run to their end."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("node", help="Its name.")
        parser.add_argument("--keep-channels", action="store_true", help="Leave the channels where they are.")

    def handle(self, *args: Any, **options: Any) -> None:
        node = node_named(options["node"])
        owners = Workload.objects.live().filter(node=node, is_wanted=True).values_list("owner", flat=True)
        on_air = Channel.objects.filter(state=Channel.State.ON_AIR)
        channels = [] if options["keep_channels"] else [each for each in on_air if each.owner in set(owners)]
        names = ", ".join(str(channel) for channel in channels) or "no channel"
        if options["dry_run"]:
            self.answer(options, f"{node} would be drained; to be moved: {names}.", moved=[])
            return
        set_draining(node, True, BY)
        moved: list[str] = []
        left: list[str] = []
        for channel in channels:
            outcome = transport.move(channel, by=BY, reason=f"{node} is drained")
            (moved if outcome.is_good else left).append(outcome.text)
        words = [f"{node} is drained.", *moved, *left]
        self.answer(options, "\n".join(words), moved=moved, not_moved=left)
