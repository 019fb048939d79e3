"""What people do by hand to a schedule (pause, resume) and to a recorder with its schedules (switch off, on)."""

from datetime import datetime

from scheduling.models import Recorder, Schedule
from scheduling.rules import replanning, switching
from scheduling.rules.switching import counted, named
from station.actions import Outcome, action, changed_meanwhile, done
from station.clock import house_time

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


@action("switch off", "Switch off", permission="scheduling.change_recorder")
def switch_off(recorder: Recorder, *, now: datetime, by: str, planned: str = switching.Planned.KEEP) -> Outcome:
    """Keep or skip its planned bookings. What is recording now continues."""
    result = switching.switch_off(recorder, now=now, by=by, planned=planned)
    words = [f"{recorder} is switched off. It cannot be booked, and its schedules plan nothing."]
    if result.skipped:
        words.append(f"{counted(result.skipped)} skipped until you switch it on again.")
    if result.kept:
        words.append(f"{counted(len(result.kept))} still planned and will be recorded: {named(result.kept)}.")
    for booking in result.running:
        words.append(f"“{booking}” is {booking.state_word} now and continues until {house_time(booking.ends_at)}.")
    details = {"skipped": result.skipped, "kept": len(result.kept), "running": [each.pk for each in result.running]}
    return done(" ".join(words), details=details, needs_attention=bool(result.kept or result.running))


@action("switch on", "Switch on", permission="scheduling.change_recorder")
def switch_on(recorder: Recorder, *, now: datetime, by: str) -> Outcome:
    """Plan again what switching it off skipped."""
    result = switching.switch_on(recorder, now=now, by=by)
    words = [f"{recorder} is switched on. Its schedules are planned in the background."]
    if result.restored:
        words.append(f"{counted(result.restored)} planned again.")
    if result.taken:
        words.append(f"{counted(len(result.taken))} still skipped because the window is taken: {named(result.taken)}.")
    details = {"restored": result.restored, "taken": [each.pk for each in result.taken]}
    return done(" ".join(words), details=details, needs_attention=bool(result.taken))
