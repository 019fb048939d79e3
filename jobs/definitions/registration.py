"""Writes declared jobs to their rows, places their cursors, pauses and resumes them."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, transaction

from jobs.definitions import fire_times
from jobs.definitions.job_decorator import JobSpec, registry
from jobs.models import Job, JobCursor, Run
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.database.notify import wake_scheduler, wake_workers
from station.models.alert import Severity
from station.redaction import redact

logger = logging.getLogger(__name__)

TIMES = ("trigger", "cron", "zone", "every_seconds", "delay_seconds")


def upsert(spec: JobSpec) -> Job:
    """Write the declaration to the row. Times that staff changed are kept while the kind of trigger is the same."""
    with transaction.atomic():
        job, _ = Job.objects.select_for_update(no_key=True).get_or_create(name=spec.name, defaults=_values(spec))
        changed = changes(job, spec)
        if changed:
            Job.objects.filter(pk=job.pk).update(**changed)
            for name, value in changed.items():
                setattr(job, name, value)
        if changed.keys() & set(TIMES):
            aim_anew(job, database_now())
    return job


def row_of(spec: JobSpec) -> Job:
    """The row of a declared job. It is created if it is missing, but not changed: only the leader does that, or old
    and new code side by side would change it back and forth."""
    return Job.objects.filter(name=spec.name).first() or upsert(spec)


def changes(job: Job, spec: JobSpec) -> dict[str, Any]:
    """The columns of the row that differ from the declaration."""
    values = _values(spec) | {"is_declared": True}
    if job.is_customised and job.trigger == values["trigger"]:
        values = {name: value for name, value in values.items() if name not in TIMES}
    else:
        values["is_customised"] = False
    return {name: value for name, value in values.items() if getattr(job, name) != value}


def _values(spec: JobSpec) -> dict[str, Any]:
    when = spec.when
    values: dict[str, Any] = {
        "title": spec.title,
        "cron": "",
        "zone": "",
        "every_seconds": None,
        "delay_seconds": 0.0,
        "has_scopes": spec.scopes is not None,
        "attempts": spec.attempts,
        "is_reentrant": spec.is_reentrant,
        "is_exclusive": spec.is_exclusive,
        "catch_up_mode": spec.catch_up.mode,
        "catch_up_window_seconds": float(spec.catch_up.window_seconds),
        "catch_up_per_turn": spec.catch_up.per_turn,
    }
    if isinstance(when, fire_times.Every):
        return values | {
            "trigger": Job.Trigger.EVERY.value,
            "every_seconds": float(when.seconds),
            "delay_seconds": float(when.delay_seconds),
        }
    if isinstance(when, fire_times.Cron):
        return values | {"trigger": Job.Trigger.CRON.value, "cron": when.expression, "zone": when.zone}
    return values | {"trigger": Job.Trigger.QUEUE.value}


def place(job: Job, now: datetime, *, are_times_new: bool = False) -> None:
    """One cursor per scope (J-03). A new one starts at the next fire time: past runs are not made up (J-05).

    If the job's times are new, all its cursors continue with the next fire time.
    """
    try:
        when = job.when
        upcoming = fire_times.first_after(when, now) if when else None
    except ValueError as error:
        note_trouble(job, error, now, is_plannable=False)
        return
    if are_times_new:
        job.cursors.update(**({"is_active": False} if upcoming is None else {"next_at": upcoming}))
    spec = registry.get(job.name)
    if spec is None and job.has_scopes:
        return  # only code can say which scopes there are; the known ones continue
    try:
        scopes = {str(scope) for scope in spec.scopes()} if spec and spec.scopes else {""}
        if upcoming is not None:
            _place(job, scopes, upcoming)
    except (OperationalError, InterfaceError):
        raise  # the database is unavailable: not an error of the job
    except Exception as error:  # noqa: BLE001  a failing provider affects this job only; its known scopes continue
        note_trouble(job, error, now, is_plannable=True)
        return
    _note_good(job, now)


def _note_good(job: Job, now: datetime) -> None:
    if job.plan_error or not job.is_plannable:
        Job.objects.filter(pk=job.pk).update(plan_error="", is_plannable=True)
        job.plan_error, job.is_plannable = "", True
        resolve_alert(f"job:{job.name}", now=now, note="the job can be planned again")


def _place(job: Job, scopes: set[str], upcoming: datetime) -> None:
    with transaction.atomic():
        known: Mapping[str, bool] = dict(job.cursors.values_list("scope", "is_active"))
        JobCursor.objects.bulk_create(
            [JobCursor(job=job, scope=scope, next_at=upcoming) for scope in sorted(scopes - known.keys())],
            ignore_conflicts=True,
            batch_size=2000,
        )
        back = [scope for scope, is_active in known.items() if not is_active and scope in scopes]
        gone = [scope for scope, is_active in known.items() if is_active and scope not in scopes]
        if back:
            job.cursors.filter(scope__in=back).update(is_active=True, next_at=upcoming)
        if gone:
            job.cursors.filter(scope__in=gone).update(is_active=False)


def aim_anew(job: Job, now: datetime) -> None:
    """Apply changed times: every scope continues with the next new fire time; past ones are not made up.

    Runs planned ahead with the old times are removed; runs that are already due stay.
    """
    with transaction.atomic():
        _take_back(job, after=now)
    place(job, now, are_times_new=True)
    wake_scheduler()


def note_trouble(job: Job, error: Exception, now: datetime, *, is_plannable: bool) -> None:
    """J-04: show the error on the job's page and raise one alert. The planner tries the job again every minute.

    Without `is_plannable` it plans no run of the job until then; with it, the scopes it knows continue.
    """
    text = redact(f"{type(error).__name__}: {error}")
    logger.error("A job cannot be planned. job=%s error=%s", job.name, text)
    Job.objects.filter(pk=job.pk).update(plan_error=text, is_plannable=is_plannable)
    job.plan_error, job.is_plannable = text, is_plannable
    raise_alert(
        f"job:{job.name}",
        f"The job {job.name} cannot be planned",
        now=now,
        severity=Severity.WARNING,
        text=f"{text}\nOther jobs are not affected.",
        subject=f"job:{job.pk}",
    )


def pause(job: Job, *, now: datetime, by: str) -> int | None:
    """J-20: no run of this job starts any more, except by hand.

    Planned runs that have not started are removed and planned again on resume. Returns how many were removed, or None
    if the job was already paused.
    """
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        if not Job.objects.filter(pk=job.pk, is_paused=False).update(is_paused=True, paused_by=by):
            return None
        job.is_paused, job.paused_by = True, by
        return _take_back(job)


def _take_back(job: Job, after: datetime | None = None) -> int:
    """Delete planned runs that have not started, and set the cursor back to the first of them.

    A run that was attempted before is history and stays.
    """
    waiting = job.runs.filter(state__in=[Run.State.SCHEDULED, Run.State.QUEUED], trigger=Run.Trigger.PLAN, attempt=0)
    if after is not None:
        waiting = waiting.filter(planned_at__gt=after)
    rows = list(waiting.select_for_update(skip_locked=True).values_list("pk", "scope", "planned_at"))
    first: dict[str, datetime] = {}
    for _, scope, planned_at in rows:
        assert planned_at is not None  # a planned run has its planned time
        first[scope] = min(planned_at, first.get(scope, planned_at))
    for scope, planned_at in first.items():
        job.cursors.filter(scope=scope).update(next_at=planned_at)
    job.runs.filter(pk__in=[pk for pk, _, _ in rows]).delete()
    return len(rows)


def resume(job: Job, *, now: datetime, by: str) -> bool:
    """The job continues where it was paused and catches up as declared. False if it is not paused."""
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        if not Job.objects.filter(pk=job.pk, is_paused=True).update(is_paused=False, paused_by=""):
            return False
        job.is_paused, job.paused_by = False, ""
        wake_workers()
        wake_scheduler()
        return True
