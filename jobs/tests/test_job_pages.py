"""The pages of jobs, runs and job workers: what they show, their actions, and permissions."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.models import Job, JobWorker, Run
from jobs.runs import declarations, queue, sweeping
from jobs.runs.finishing import Failure
from station.clock import database_now
from station.models import AuditEntry, Project
from testing.fleet import HandWorker

pytestmark = [pytest.mark.django_db]

NOTE = {"path": "/dev/null"}


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def boss(admin_user: User) -> Client:
    return client_of(admin_user)


@pytest.fixture
def hourly() -> Job:
    declarations.sync(database_now())
    return Job.objects.get(name="test.crontab")


def act(client: Client, model: str, pk: int, action: str) -> Any:
    return client.post(reverse(f"admin:jobs_{model}_{action}", args=[pk]), {"_form_submitted": "on"}, follow=True)


def url(client: Client, model: str, pk: int) -> str:
    return client.get(reverse(f"admin:jobs_{model}_change", args=[pk])).content.decode()


def test_a_job_is_paused_run_by_hand_and_resumed_with_everything_on_record(boss: Client, hourly: Job) -> None:
    """J-19, J-20, S-02."""
    assert act(boss, "job", hourly.pk, "pause").status_code == 200
    hourly.refresh_from_db()
    assert (hourly.is_paused, hourly.paused_by) == (True, "boss")
    assert "paused" in url(boss, "job", hourly.pk)

    act(boss, "job", hourly.pk, "run_now")
    run = Run.objects.get(job=hourly)
    assert (run.trigger, run.requested_by) == ("manual", "boss")
    act(boss, "job", hourly.pk, "run_now")
    assert Run.objects.filter(job=hourly).count() == 1

    act(boss, "job", hourly.pk, "resume")
    hourly.refresh_from_db()
    assert hourly.is_paused is False
    assert set(AuditEntry.objects.values_list("what", flat=True)) == {"pause", "run now", "resume"}


def test_get_does_nothing(boss: Client, hourly: Job) -> None:
    """S-02: GET never changes anything."""
    run = queue.enqueue("test.note", NOTE)
    for model, pk, action in (("job", hourly.pk, "pause"), ("job", hourly.pk, "run_now"), ("run", run.pk, "cancel")):
        boss.get(reverse(f"admin:jobs_{model}_{action}", args=[pk]))
    hourly.refresh_from_db()
    run.refresh_from_db()
    assert (hourly.is_paused, run.state, Run.objects.filter(job=hourly).count()) == (False, "queued", 0)


def test_the_times_of_a_job_can_be_changed_and_invalid_ones_are_refused_beside_the_field(
    boss: Client, hourly: Job
) -> None:
    """J-04, S-07."""
    page = reverse("admin:jobs_job_change", args=[hourly.pk])
    assert "Enter a value between 0.1 seconds and 31 days." in boss.post(page, {"every_seconds": "0"}).content.decode()
    boss.post(page, {"every_seconds": "1800"})
    hourly.refresh_from_db()
    assert (hourly.every_seconds, hourly.is_customised) == (1800, True)
    assert hourly.cursors.get().next_at.minute in {0, 30}
    declarations.sync(database_now())
    hourly.refresh_from_db()
    assert hourly.every_seconds == 1800


def test_filling_in_shows_the_list_first(boss: Client, hourly: Job) -> None:
    """J-05: backfill a range with a preview."""
    page = reverse("job-backfill", args=[hourly.pk])
    assert boss.get(page).status_code == 200
    zone = database_now().astimezone()
    from station.clock import house_zone

    first = (zone - timedelta(hours=4) + timedelta(minutes=1)).astimezone(house_zone()).strftime("%Y-%m-%d %H:%M")
    last = zone.astimezone(house_zone()).strftime("%Y-%m-%d %H:%M")
    span = {"first": first, "last": last, "scope": ""}
    shown = boss.post(page, span).content.decode()
    assert "4 runs will be queued" in shown
    assert Run.objects.count() == 0
    assert "must end after it starts" in boss.post(page, {**span, "first": last, "last": first}).content.decode()
    assert "Enter a valid date/time" in boss.post(page, {**span, "first": "yesterday"}).content.decode()
    boss.post(page, {**span, "confirm": "1"})
    assert Run.objects.filter(trigger="backfill").count() == 4


def test_a_dead_job_worker_is_shown_differently_from_failed_work(boss: Client) -> None:
    """J-17: its own label and colour in the list, on the page and in the filter."""
    queue.enqueue("test.note", NOTE)
    queue.enqueue("test.once", NOTE)
    worker = HandWorker("test.note", "test.once")
    by_job = {Job.objects.get(pk=run.job_id).name: run for run in worker.claim(2)}
    Run.objects.filter(job__name="test.note").update(attempts_allowed=1)
    failed = by_job["test.note"]
    worker.finish(
        type(failed)(**{**failed.__dict__, "attempts_allowed": 1}), Failure(Run.Fault.HANDLER_ERROR, "<b>torn</b>")
    )
    JobWorker.objects.update(pid=2**22 + 1)
    sweeping.bury(database_now())

    listed = boss.get(reverse("admin:jobs_run_changelist")).content.decode()
    assert "failed: the job worker died" in listed
    assert "handler_error: &lt;b&gt;torn" in listed
    assert "<b>torn</b>" not in listed
    crashed = boss.get(reverse("admin:jobs_run_changelist") + "?fault=worker").content.decode()
    assert "test.once" in crashed
    assert "handler_error" not in crashed.split("<tbody", 1)[1]
    assert "crashed" in boss.get(reverse("admin:jobs_jobworker_changelist")).content.decode()


def test_a_run_is_cancelled_and_tried_again(boss: Client) -> None:
    """J-25 by hand, and retry; bulk actions in the list report what happened."""
    run = queue.enqueue("test.note", NOTE)
    act(boss, "run", run.pk, "cancel")
    run.refresh_from_db()
    assert (run.state, run.cancel_reason) == ("cancelled", "cancelled by boss")
    act(boss, "run", run.pk, "retry")
    run.refresh_from_db()
    assert run.state == "queued"
    other = queue.enqueue("test.noop")
    data = {"action": "cancel_selected", "_selected_action": [run.pk, other.pk]}
    page = boss.post(reverse("admin:jobs_run_changelist"), data, follow=True).content.decode()
    assert "2 cancelled" in page
    page = boss.post(reverse("admin:jobs_run_changelist"), data, follow=True).content.decode()
    assert "0 cancelled, 2 skipped" in page


def test_runs_belong_to_their_project(project: Project, make_member: Any, hourly: Job) -> None:
    """S-01: another project's runs are 404, also their live fragment; an operator may see jobs but not change them."""
    sport = Project.objects.create(name="Sport", slug="sport")
    mine = queue.enqueue("test.noop", project_id=project.pk)
    foreign = queue.enqueue("test.noop", project_id=sport.pk)
    nobodys = queue.enqueue("test.noop")
    engineer, operator = client_of(make_member(project, "engineer")), client_of(make_member(project, "operator"))
    viewer = client_of(make_member(project, "viewer"))
    assert engineer.get(reverse("run-now", args=[mine.pk])).status_code == 200
    for run in (foreign, nobodys):
        assert engineer.get(reverse("run-now", args=[run.pk])).status_code == 404
        assert engineer.get(reverse("admin:jobs_run_change", args=[run.pk])).status_code == 404
        act(engineer, "run", run.pk, "cancel")
        run.refresh_from_db()
        assert run.state == "queued"
    act(engineer, "run", mine.pk, "cancel")
    mine.refresh_from_db()
    assert mine.state == "cancelled"
    act(operator, "job", hourly.pk, "pause")
    hourly.refresh_from_db()
    assert hourly.is_paused is False
    assert operator.post(reverse("job-backfill", args=[hourly.pk])).status_code == 403
    assert viewer.get(reverse("admin:jobs_job_changelist")).status_code == 403


def test_metrics_need_the_token_and_health_checks_do_not(client: Client, settings: Any) -> None:
    """J-23: /metrics answers only with the token; /healthz and /readyz need none."""
    queue.enqueue("test.noop")
    assert client.get("/metrics").status_code == 404
    settings.METRICS_TOKEN = "let-me-in"
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 404
    page = client.get("/metrics", headers={"Authorization": "Bearer let-me-in"}).content.decode()
    assert 'airlock_runs_waiting{job="test.noop"} 1' in page
    assert "airlock_leader_present 0" in page
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
