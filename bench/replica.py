"""A scheduler for benchmarks: the real loop, leader and dispatcher, but a start only creates a symbolic link.

`python -m bench.replica FOLDER` starts a booking as a runtime without containers would: it checks whether something of
that name exists and, if not, creates it. A symbolic link is created atomically, even under kill -9; its target says
when the start began and in which process. An existing link is adopted and counted as adopted. Two starters that both
found nothing and both went on would be a double start: the second is counted as doubled.

`phases-PID` in that folder tells when this replica got the lock and how far it was since (`bench.takeover`).
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import django


def note_calls(owner: type, name: str, note: Callable[[str], None], *, before: str, after: str) -> None:
    """Note when this method is first called and when it first returns."""
    call = getattr(owner, name)

    def noted(self: Any, *args: Any) -> Any:
        note(before)
        result = call(self, *args)
        note(after)
        return result

    setattr(owner, name, noted)


def note_phases(folder: str) -> Callable[[str], None]:
    """Note each phase of the takeover when it is first reached; returns the function that does it."""
    from scheduling.leader.dispatch import Dispatcher
    from scheduling.leader.election import Leader

    phases = os.open(f"{folder}/phases-{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    seen: set[str] = set()

    def note(phase: str) -> None:
        if phase not in seen:
            seen.add(phase)
            os.write(phases, f"{phase} {time.time_ns()}\n".encode())

    note_calls(Leader, "_become_leader", note, before="lock", after="epoch")
    note_calls(Dispatcher, "step", note, before="step", after="stepped")
    note_calls(Dispatcher, "_take_over", note, before="claimed", after="inherited")
    note_calls(Dispatcher, "_dispatch", note, before="due", after="dispatched")
    return note


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

    note = note_phases(folder)

    def start(term: Term, pk: int) -> None:
        began = time.time_ns()
        note("start")
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
