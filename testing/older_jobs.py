"""Jobs as an older release declares them, for tests of an upgrade. Loaded with JOB_MODULES=testing.older_jobs."""

from dataclasses import dataclass

from jobs.definitions.job_decorator import job
from jobs.definitions.run_context import RunContext


@dataclass(frozen=True)
class Clip:
    path: str
    seconds: float


@job("test.changed", payload=Clip, attempts=1)
def changed(run: RunContext, clip: Clip) -> str:
    """Its payload is different in the newer release."""
    return "older code"
