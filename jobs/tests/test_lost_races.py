"""When two people act on one job or run at the same time, the audit log names only the one whose action took effect."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.definitions import registration
from jobs.models import Job, Run
from jobs.runs import queue
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
    registration.sync(database_now())
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
