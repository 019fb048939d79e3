"""Pages and fragments about jobs: the progress of a run, and the form that fills in missing runs."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.decorators import staff_member_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from jobs.badges import outcome_badge
from jobs.models import Job, Run
from jobs.runs import controls, queue
from station.admin.base import who
from station.badges import stamp
from station.clock import database_now, house_zone, spoken
from station.rights import only_visible


def run_context(run: Run) -> dict[str, Any]:
    """Template context of the fragment jobs/run_now.html."""
    elapsed = ""
    if run.state == Run.State.RUNNING and run.claimed_at:
        elapsed = spoken(max(0.0, (database_now() - run.claimed_at).total_seconds()))
    is_waiting = run.state in {Run.State.SCHEDULED, Run.State.RETRY}
    return {
        "run": run,
        "badge": outcome_badge(run.state, run.error_code),
        "elapsed": elapsed,
        "due": stamp(run.run_at) if is_waiting else "",
    }


@staff_member_required
@require_safe
def run_now(request: HttpRequest, pk: int) -> HttpResponse:
    """State and progress of a run. Its page polls this until the run is over."""
    run = get_object_or_404(only_visible(Run.objects.select_related("job"), request.user, "jobs.view_run"), pk=pk)
    return render(request, "jobs/run_now.html", run_context(run))


class SpanForm(forms.Form):
    """The period to fill in, in house time."""

    first = forms.DateTimeField(
        label="From", widget=UnfoldAdminTextInputWidget, help_text="For example 2026-03-29 06:00."
    )
    last = forms.DateTimeField(label="To", widget=UnfoldAdminTextInputWidget, help_text="Not later than now.")
    scope = forms.ChoiceField(required=False, widget=UnfoldAdminSelectWidget)

    def __init__(self, job: Job, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scopes = list(job.cursors.order_by("scope").values_list("scope", flat=True)[:500]) or [""]
        self.fields["scope"].choices = [(scope, scope or "(none)") for scope in scopes]  # type: ignore[attr-defined]

    def span(self) -> tuple[datetime, datetime]:
        return self.cleaned_data["first"], self.cleaned_data["last"]


@staff_member_required
def backfill_page(request: HttpRequest, pk: int) -> HttpResponse:
    """List the missing runs first; a second button queues them (J-05)."""
    job = get_object_or_404(only_visible(Job.objects.all(), request.user, "jobs.view_job"), pk=pk)
    if not controls.backfill.may(request.user, job):
        raise PermissionDenied
    now = database_now()
    initial = {"first": _local(now - timedelta(days=1)), "last": _local(now)}
    form = SpanForm(job, request.POST if request.method == "POST" else None, initial=initial)
    moments: list[datetime] | None = None
    if request.method == "POST" and form.is_valid():
        try:
            moments = queue.backfill_moments(job, form.cleaned_data["scope"], *form.span())
            if "confirm" in request.POST:
                return _fill_in(request, job, form)
        except (queue.NotQueued, ValueError) as refusal:
            form.add_error(None, str(refusal))
    context = {
        **admin.site.each_context(request),
        "title": f"Missing runs of {job}",
        "job": job,
        "form": form,
        "moments": None if moments is None else [stamp(moment) for moment in moments],
    }
    return render(request, "jobs/backfill.html", context)


def _fill_in(request: HttpRequest, job: Job, form: SpanForm) -> HttpResponse:
    first, last = form.span()
    outcome = controls.backfill(job, by=who(request), scope=form.cleaned_data["scope"], first=first, last=last)
    messages.add_message(request, messages.SUCCESS if outcome.is_good else messages.WARNING, outcome.text)
    return redirect("admin:jobs_job_change", job.pk)


def _local(moment: datetime) -> str:
    return moment.astimezone(house_zone()).strftime("%Y-%m-%d %H:%M")
