"""What people do to a schedule by hand: pause and resume."""

from datetime import datetime

from scheduling.models import Schedule
from scheduling.rules import replanning
from station.actions import Outcome, action, changed_meanwhile, done

CHANGE = "scheduling.change_schedule"


@action("pause", "Pause", permission=CHANGE, when=lambda schedule: not schedule.is_paused, otherwise="already paused")
def pause(schedule: Schedule, *, now: datetime, by: str) -> Outcome:
    count = replanning.pause(schedule, now=now, by=by)
    if count is None:
        return changed_meanwhile(schedule)
    return done(f"{schedule} is paused; {count} planned recordings are skipped.", details={"skipped": count})


@action("resume", "Resume", permission=CHANGE, when=lambda schedule: schedule.is_paused, otherwise="not paused")
def resume(schedule: Schedule, *, now: datetime, by: str) -> Outcome:
    changes = replanning.resume(schedule, now=now, by=by)
    if changes is None:
        return changed_meanwhile(schedule)
    return done(f"{schedule} is active again: {changes.in_words()}")
