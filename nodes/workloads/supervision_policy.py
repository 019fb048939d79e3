"""The supervision policy, stored with each workload, so that `nodes` does not depend on the kind of program."""

from dataclasses import dataclass, field

from django.conf import settings


def _default_poll_seconds() -> float:
    seconds: float = settings.STATUS_POLL_SECONDS
    return seconds


def _default_memory_mb() -> int:
    megabytes: int = settings.WORKER_MEMORY_MB
    return megabytes


@dataclass(frozen=True)
class Supervision:
    """The defaults suit a program that may be silent until its deadline, such as a recording."""

    poll_seconds: float = field(default_factory=_default_poll_seconds)
    memory_mb: int = field(default_factory=_default_memory_mb)
    # How long it may be silent before it counts as lost. None: until its deadline.
    silence_seconds: float | None = None
    # It may still be sending although it does not answer. It is declared lost within seconds, but only if its engine
    # and the other nodes do not show that this machine is cut off. If it is still running when its node is back, and
    # nothing replaced it, it continues (P-05, P-06).
    is_fenced: bool = False
