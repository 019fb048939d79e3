"""The badge for a run's state, the same on every page."""

from django.utils.safestring import SafeString

from jobs.models import Run
from station.badges import badge

State = Run.State


def outcome_badge(state: str, code: str) -> SafeString:
    """A job worker that died is not work that failed: it has its own label and colour (J-17)."""
    if code in Run.WORKER_FAULTS and state in {State.FAILED, State.RETRY}:
        return badge(f"{State(state).label.lower()}: {Run.Fault(code).label}", "amber")
    return badge(State(state).label.lower(), Run.COLOURS[State(state)])
