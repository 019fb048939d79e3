"""`python -m testing.chaos`: runs once and judges. All choices come from one seed, which is printed first."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import django
from django.core.management import call_command

from testing.chaos import report
from testing.chaos.database_pair import DatabasePair
from testing.chaos.verdict import judge

LOG_TAIL = 3000


def prepare(stack: ExitStack, *, is_kept: bool) -> tuple[Path, DatabasePair]:
    """A folder and two database servers, which end with the run; then Django with its tables."""
    folder = Path(tempfile.mkdtemp(prefix="airlock-chaos-"))
    if is_kept:
        print(f"the folder of this run: {folder}", flush=True)
    else:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    database = DatabasePair(folder)
    stack.callback(database.stop)
    os.environ.update(DATA_DIR=str(folder / "data"), DATABASE_URL=database.url, HTTPS="false", LOG_LEVEL="ERROR")
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    call_command("migrate", verbosity=0)
    database.add_standby()
    return folder, database


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--bookings", type=int, default=100)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs, recordings and database")
    options = parser.parse_args()
    print(f"seed {options.seed}: make chaos SEED={options.seed} repeats this run", flush=True)
    with ExitStack() as stack:
        folder, database = prepare(stack, is_kept=options.keep)
        from testing.chaos.run import ChaosRun  # its models need Django's settings

        chaos = ChaosRun(options.seed, options.seconds, options.bookings, folder, database)
        stack.callback(chaos.close)
        chaos.stage()
        chaos.inject_faults()
        chaos.say("no more faults")
        chaos.settle()
        facts = chaos.collect()
        wrong = judge(facts)
        for booking in facts.bookings:
            if booking.state == "partial":
                print(f"partial: {booking.story}")
        chaos.close()
        if any(wrong.values()):
            for log in chaos.schedulers.logs:
                print(f"--- {log.name}\n{log.read_text()[-LOG_TAIL:]}")
            print(report.findings(wrong))
        print(report.table(facts, wrong, chaos.faults_by_kind))
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
