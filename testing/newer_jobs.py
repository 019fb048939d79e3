"""The jobs of testing/older_jobs.py, and one more, as a newer release declares them."""

from dataclasses import dataclass

from jobs.definitions.job_decorator import every, job
from jobs.definitions.run_context import RunContext


@dataclass(frozen=True)
class Clip:
    path: str
    frames: int


@job("test.changed", payload=Clip, attempts=1)
def changed(run: RunContext, clip: Clip) -> str:
    """Its payload is different in the older release."""
    return "newer code"


@job("test.added", when=every(1.0), attempts=1)
def added(run: RunContext) -> None:
    """Is due every second; the older release does not have it."""
