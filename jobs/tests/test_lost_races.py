"""When two people act on one job or run at the same time, the audit log names only the one whose action took effect."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.definitions import registration
from jobs.models import Job, JobCursor, Run
from jobs.runs import controls, declarations, queue
from station.clock import database_now
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db]

NOTE = {"path": "/dev/null"}


@pytest.fixture
def boss(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def job() -> Job:
    declarations.sync(database_now())
    return Job.objects.get(name="test.crontab")


def first(module: Any, name: str, second_actor: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another user act once, just before `module.name` is called."""
    original, acted = getattr(module, name), list[bool]()

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not acted:
            acted.append(True)
            second_actor()
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, wrapped)


def press(client: Client, row: Any, name: str, way: str) -> str:
    names = f"admin:jobs_{row._meta.model_name}"
    if way == "button":
        client.post(reverse(f"{names}_{name}", args=[row.pk]), {"_form_submitted": "on"})
        return client.get(reverse(f"{names}_change", args=[row.pk])).content.decode()
    data = {"action": f"{name}_selected", "_selected_action": [row.pk]}
    return client.post(reverse(f"{names}_changelist"), data, follow=True).content.decode()


def claimed() -> list[str]:
    return [each.what for each in AuditEntry.objects.filter(who="boss") if getattr(each, "result", "done") == "done"]


@pytest.mark.parametrize("way", ["button", "list"])
@pytest.mark.parametrize("name", ["pause", "resume"])
def test_a_job_somebody_else_paused_or_resumed_first_is_not_claimed(
    boss: Client, job: Job, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    rows = Job.objects.filter(pk=job.pk)
    rows.update(is_paused=name == "resume", paused_by="bert" if name == "resume" else "")
    by = "bert" if name == "pause" else ""
    first(registration, name, lambda: rows.update(is_paused=name == "pause", paused_by=by), monkeypatch)

    page = press(boss, job, name, way)

    assert claimed() == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "by someone else" in page
    job.refresh_from_db()
    assert job.paused_by == by


@pytest.mark.parametrize("way", ["button", "list"])
def test_a_run_that_ended_in_that_moment_is_not_on_record_as_cancelled(
    boss: Client, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    run = queue.enqueue("test.note", NOTE)
    ended = {"state": Run.State.SUCCEEDED, "state_since_at": database_now()}
    first(queue, "cancel", lambda: Run.objects.filter(pk=run.pk).update(**ended), monkeypatch)

    page = press(boss, run, "cancel", way)

    assert claimed() == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "succeeded" in page


@pytest.mark.parametrize("way", ["button", "list"])
def test_a_run_somebody_else_retried_first_is_not_claimed(
    boss: Client, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    run = queue.enqueue("test.note", NOTE)
    assert queue.cancel(run, by="bert")
    original = queue.retry
    first(queue, "retry", lambda: original(Run.objects.get(pk=run.pk), by="bert"), monkeypatch)

    page = press(boss, run, "retry", way)

    assert claimed() == []
    assert AuditEntry.objects.get().result == "nothing"
    assert "queued" in page
    assert list(run.events.filter(new="queued", old="cancelled").values_list("by", flat=True)) == ["bert"]


def test_a_retry_that_loses_to_a_new_run_with_the_same_key_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new run is queued after the check for it and before the move: the database refuses the second one."""
    run = queue.enqueue("test.note", NOTE, key="one")
    assert queue.cancel(run, by="bert")
    first(Run, "move", lambda: queue.enqueue("test.note", NOTE, key="one"), monkeypatch)

    outcome = controls.retry(run, by="boss")

    assert (outcome.result, outcome.reason) == ("nothing", "another run with the same key is already live")
    assert claimed() == []


def test_run_now_says_how_many_scopes_it_left_out(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.cursors.all().delete()
    JobCursor.objects.bulk_create(JobCursor(job=job, scope=name, next_at=database_now()) for name in "abc")
    monkeypatch.setattr(controls, "SCOPES_BY_HAND", 2)

    outcome = controls.run_now(job, by="boss")

    assert (outcome.is_done, outcome.is_good) == (True, False)
    assert outcome.text == "2 runs of test.crontab are queued. 1 more scope was left out: at most 2 at once."
