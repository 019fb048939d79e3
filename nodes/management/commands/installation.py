"""`manage.py installation`: shows which machines act for this installation, admits this one, or starts a new one."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from nodes.machines.given_up import give_up_copied
from station import admission
from station.actions.commands import BY
from station.clock import database_now, house_time
from station.models import AdmittedMachine, Installation

AFTER_NEW = (
    "This is now installation {short}, with this machine as its only one. {workloads} media workers of the original "
    "were given up (they run on), {nodes} nodes were drained. Before you open a node for work: change or delete what "
    "reaches the outside (outputs of channels, destinations, alert routes)."
)


class Command(BaseCommand):
    help = "Show which machines act for this installation, admit this one, or make a copied database independent."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        status = commands.add_parser("status", help="Show the id and the machines. Exit code 1: not admitted.")
        status.add_argument("--json", action="store_true", help="Print JSON.")
        commands.add_parser("adopt", help="This machine belongs to the installation in its database.")
        new = commands.add_parser("new", help="The database is a copy: become a new installation.")
        new.add_argument("--force", action="store_true", help="Also on a machine that is admitted (a cloned machine).")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['command']}")(options)

    def _status(self, options: dict[str, Any]) -> None:
        is_admitted = admission.is_admitted()
        row, machines = Installation.current(), list(AdmittedMachine.objects.all())
        if options["json"]:
            known = [{"name": each.name, "admitted_at": each.admitted_at.isoformat()} for each in machines]
            facts = {"installation": row.identity.hex, "is_admitted": is_admitted, "machines": known}
            self.stdout.write(json.dumps(facts, indent=1))
        else:
            self.stdout.write(f"Installation {row.short}")
            for each in machines:
                here = " (this machine)" if each.digest == admission.own_digest() else ""
                self.stdout.write(f"  admitted {house_time(each.admitted_at)}: {each.name}{here}")
            if not is_admitted:
                self.stdout.write(admission.explanation(row))
        if not is_admitted:
            raise SystemExit(1)

    def _adopt(self, options: dict[str, Any]) -> None:
        row = admission.adopt(database_now())
        self.stdout.write(f"{admission.own_name()} now acts for installation {row.short}.")

    def _new(self, options: dict[str, Any]) -> None:
        if admission.is_admitted() and not options["force"]:
            raise CommandError(
                f"{admission.own_name()} is admitted, so its database is not a copy, and what runs on its nodes would "
                "be left alone there. On a clone of the whole machine, use --force."
            )
        now = database_now()
        with transaction.atomic():
            row = admission.become_new(now)
            workloads, nodes = give_up_copied(now, BY)
        self.stdout.write(AFTER_NEW.format(short=row.short, workloads=workloads, nodes=nodes))
