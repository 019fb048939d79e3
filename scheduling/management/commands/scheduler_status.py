"""`manage.py scheduler_status`: shows which scheduler leads and what comes next. The exit code is 1 if none leads."""

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from scheduling.leader.election import read_status
from scheduling.models import Booking
from station.admission import waiting_machines
from station.clock import database_now, house_time, spoken


class Command(BaseCommand):
    help = "Show which scheduler leads, since when, and what comes next. The exit code is 1 if none leads."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        now = database_now()
        status = read_status()
        soon = Booking.objects.before_start().filter(opens_at__lt=now + timedelta(hours=1))
        upcoming = Booking.objects.before_start().filter(opens_at__gte=now).order_by("opens_at").first()
        figures = {
            "active": Booking.objects.active().count(),
            "next_hour": soon.count(),
            "overdue": Booking.objects.overdue(now - timedelta(seconds=5)).count(),
            "next_start_at": upcoming.opens_at if upcoming else None,
            "not_admitted": waiting_machines(),
        }
        if options["json"]:
            content = {"is_leading": status.is_locked, **asdict(status), **figures}
            self.stdout.write(json.dumps(content, default=lambda moment: moment.isoformat(), indent=1))
        else:
            self._say(status, figures)
        if not status.is_locked:
            raise SystemExit(1)

    def _say(self, status: Any, figures: dict[str, Any]) -> None:
        if status.is_locked:
            since = house_time(status.taken_at) if status.taken_at else "?"
            self.stdout.write(f"{status.holder} has led since {since} (epoch {status.epoch}).")
            self.stdout.write(f"Last heartbeat {spoken(status.silent_seconds or 0)} ago; {status.standbys} on standby.")
        else:
            self.stdout.write("No scheduler leads. Nothing will start or stop until one runs: manage.py runscheduler")
        for reason in figures["not_admitted"]:
            self.stdout.write(f"A machine may not lead. {reason}")
        upcoming = figures["next_start_at"]
        words = f"next start {house_time(upcoming)}" if upcoming else "nothing planned"
        counts = f"{figures['active']} active, {figures['next_hour']} within the hour, {figures['overdue']} overdue"
        self.stdout.write(f"{counts}; {words}.")
