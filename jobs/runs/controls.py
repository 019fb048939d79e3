"""Staff actions on jobs (run now, pause, resume, fill in) and on runs (cancel, retry)."""

from datetime import datetime
from typing import Any

from jobs.definitions import registration
from jobs.models import Job, Run
from jobs.runs import queue
from station.actions import Outcome, action, changed_meanwhile, done, nothing, refused

OPERATE = "jobs.operate_job"
SCOPES_BY_HAND = 100
State = Run.State
RETRIED = (State.FAILED, State.CANCELLED, State.RETRY)


@action("run now", "Run now", permission=OPERATE, when=lambda job: job.is_declared, otherwise="not in the code")
def run_now(job: Job, *, now: datetime, by: str, scope: str | None = None, payload: Any = None) -> Outcome:
    """Run the job once, outside its schedule and even while it is paused. Without a scope: in every active scope."""
    scopes = [scope]
    if scope is None:
        scopes = list(job.cursors.filter(is_active=True).exclude(scope="").values_list("scope", flat=True)) or [""]
    runs: list[Run] = []
    not_queued: list[str] = []
    for each in scopes[:SCOPES_BY_HAND]:
        try:
            runs.append(queue.run_by_hand(job.name, scope=each or "", payload=payload, by=by))
        except queue.NotQueued as refusal:  # a refusal in one scope must not stop the others
            not_queued.append(str(refusal))
    if not runs:
        return refused(not_queued[0])
    details = {"runs": [run.pk for run in runs]}
    if len(scopes) == 1:
        return done(f"Run {runs[0].pk} of {job} is queued.", target=runs[0], details=details)
    left = len(scopes) - SCOPES_BY_HAND
    if left > 0:
        words = "1 more scope was" if left == 1 else f"{left} more scopes were"
        not_queued.insert(0, f"{words} left out: at most {SCOPES_BY_HAND} at once.")
    text = " ".join([f"{len(runs)} runs of {job} are queued.", *not_queued[:3]])
    return done(text, details=details, needs_attention=bool(not_queued))


@action("pause", "Pause", permission=OPERATE, when=lambda job: not job.is_paused, otherwise="already paused")
def pause(job: Job, *, now: datetime, by: str) -> Outcome:
    count = registration.pause(job, now=now, by=by)
    if count is None:
        return changed_meanwhile(job)
    return done(f"{job} is paused.", details={"taken_back": count})


@action("resume", "Resume", permission=OPERATE, when=lambda job: job.is_paused, otherwise="not paused")
def resume(job: Job, *, now: datetime, by: str) -> Outcome:
    if not registration.resume(job, now=now, by=by):
        return changed_meanwhile(job)
    return done(f"{job} is active again.")


@action("backfill", "Fill in", permission=OPERATE, when=lambda job: job.is_declared, otherwise="not in the code")
def backfill(job: Job, *, now: datetime, by: str, scope: str, first: datetime, last: datetime) -> Outcome:
    """J-05: queue missing runs of a period, at the lowest priority. Repeating it adds nothing."""
    made = queue.backfill(job, scope, first, last, by=by)
    if not made:
        return nothing(f"{job} already has a run for every planned time in this period.")
    text = f"{len(made)} runs of {job} are queued. They run after all current runs."
    return done(text, details={"runs": len(made)})


@action("cancel", "Cancel", permission=OPERATE, states=tuple(Run.live_states()))
def cancel(run: Run, *, now: datetime, by: str) -> Outcome:
    """A waiting run never starts; a running one is asked to stop."""
    if not queue.cancel(run, by=by):
        return changed_meanwhile(run)
    return done(f"{run} was asked to stop." if run.state == State.RUNNING else f"{run} is cancelled.")


@action("retry", "Retry", permission=OPERATE, states=RETRIED)
def retry(run: Run, *, now: datetime, by: str) -> Outcome:
    """Queue the run again now, with its full number of attempts."""
    if not queue.retry(run, by=by):
        return changed_meanwhile(run) if _has_moved(run) else _twin(run)
    return done(f"{run} is queued again.")


def _has_moved(run: Run) -> bool:
    return not Run.objects.filter(pk=run.pk, state=run.state, state_since_at=run.state_since_at).exists()


def _twin(run: Run) -> Outcome:
    return nothing(
        f"{run}: another run with the same key is already live.", reason="another run with the same key is already live"
    )
