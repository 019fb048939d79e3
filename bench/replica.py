"""A scheduler for benchmarks: the real loop, leader and dispatcher, but a start only creates a symbolic link.

`python -m bench.replica FOLDER` starts a booking as a runtime without containers would: it checks whether something of
that name exists and, if not, creates it. A symbolic link is created atomically, even under kill -9; its target says
when the start began and in which process. An existing link is adopted and counted as adopted. Two starters that both
found nothing and both went on would be a double start: the second is counted as doubled.
"""

import os
import sys
import time

import django


def main(folder: str) -> None:
    django.setup()
    from django.conf import settings

    from scheduling.leader.loop import Loop
    from station.leader_term import Term

    # Nothing is started, so there are no bookings to advance; all other steps run as in production.
    settings.SCHEDULER_STEPS = [
        path for path in settings.SCHEDULER_STEPS if path != "scheduling.recording.loop_step.step"
    ]
    me = os.getpid()
    adopted = os.open(f"{folder}/adopted-{me}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    doubled = os.open(f"{folder}/doubled-{me}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def start(term: Term, pk: int) -> None:
        began = time.time_ns()
        name = f"{folder}/b{pk}"
        if os.path.lexists(name):
            os.write(adopted, f"{pk}\n".encode())
            return
        try:
            os.symlink(f"{began}-{me}", name)  # noqa: PTH211  (nanoseconds count here)
        except FileExistsError:
            os.write(doubled, f"{pk}\n".encode())

    Loop(start=start).run()


if __name__ == "__main__":
    main(sys.argv[1])
