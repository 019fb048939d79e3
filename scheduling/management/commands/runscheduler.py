"""`manage.py runscheduler`: runs the loop that keeps recorders and channels running on time."""

import os
import sys
from typing import Any

import psycopg
from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from nodes.machines.call_pools import pools
from scheduling.leader.loop import Loop
from station.admission import NotAdmitted, label
from station.database.roles import STEPS, take_role
from station.database.sessions import PoolingRefused

SWITCH_SECONDS = 0.001


class Command(BaseCommand):
    # Not those of the admin and of URLs: they would load all pages.
    requires_system_checks = [Tags.compatibility, Tags.security]
    help = "Run the scheduler's loop until SIGTERM or Ctrl-C. Any number can run; one leads. Recordings continue."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="Run one turn, if no other scheduler leads, and end.")

    def handle(self, *args: Any, **options: Any) -> None:
        take_role(STEPS)
        # The leader's thread waits for the interpreter behind dozens of others: let them hand it on sooner.
        sys.setswitchinterval(SWITCH_SECONDS)
        loop = Loop()
        try:
            if options["once"]:
                self._run_once(loop)
            else:
                loop.run()
        except PoolingRefused as refusal:
            raise CommandError(str(refusal)) from refusal
        finally:
            pools.close()

    def _run_once(self, loop: Loop) -> None:
        never, _ = os.pipe()
        settings.LEADER_LOCK_TRY_SECONDS = min(
            settings.LEADER_LOCK_TRY_SECONDS, 2.0
        )  # do not wait long if another one leads
        try:
            label()
            loop.leader.open()
            if not loop.leader.try_to_lead(never):
                raise CommandError("Another scheduler leads and does the work.")
            loop.run_once()
            loop.leader.step_down()
        except NotAdmitted as refusal:
            raise CommandError(str(refusal)) from refusal
        except (OperationalError, psycopg.OperationalError) as error:
            raise CommandError(f"The database does not answer: {str(error).strip()}") from error
        finally:
            loop.leader.close()
