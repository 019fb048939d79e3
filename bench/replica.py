"""A scheduler of the benches: the real loop, leader and dispatcher; only what is started is nothing at all.

`python -m bench.replica FOLDER` starts a booking as a runtime without containers would: it looks whether something of
that name is there, and if not, makes it. The thing is a symbolic link, because one appears whole or not at all, even
under kill -9; its target says when the start began and in which process. What is found already made is adopted and
counted as such. Two starters that both found nothing and both went on would be a double start: the loser is counted.
"""

import os
import sys
import time

import django


def main(folder: str) -> None:
    django.setup()
    from django.conf import settings

    from scheduling.leader.loop import Loop
    from station.term import Term

    # Nothing is started, so there is nothing to look after; all else runs as it does in the house.
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
