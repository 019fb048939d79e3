"""`manage.py runscheduler`: the loop that keeps recorders and channels running on time."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from nodes.pools import pools
from scheduling.loop import Loop


class Command(BaseCommand):
    help = "Run the scheduler's loop until SIGTERM or Ctrl-C. Recordings run on when it ends."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="Run one turn and end.")

    def handle(self, *args: Any, **options: Any) -> None:
        loop = Loop()
        if options["once"]:
            loop.run_once()
        else:
            loop.run()
        pools.close()
