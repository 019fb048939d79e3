"""Shared code of the management commands: --json, --dry-run, and what a move would do."""

from django.core.management.base import CommandError, CommandParser

from nodes import workloads
from nodes.models import Node
from playout.channels import failover
from playout.models import Channel
from station.actions.commands import ActionCommand
from station.clock import database_now


class PlayoutCommand(ActionCommand):
    """A command with --json and --dry-run."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print JSON.")
        parser.add_argument("--dry-run", action="store_true", help="Only print what would be done.")


def planned_move(channel: Channel, to_node: Node | None = None) -> str:
    """What a move would do, for --dry-run. Raises CommandError for the same reasons as a real move."""
    workload = workloads.latest(channel.owner)
    here = workload.node if workload is not None else "?"
    try:
        target = failover.target_of(channel, database_now(), to_node)
    except failover.CannotMove as refusal:
        raise CommandError(f"{channel} would not be moved: {refusal}.") from refusal
    return f"{channel} would be moved from {here} to {target}."
