"""The preview below the schedule form: the next ten windows, and the effect of the next two clock changes."""

from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from scheduling.models import Schedule
from scheduling.rules.recurrence import describe_changes, occurrences
from station.clock import spoken
from station.clock.cron import BadCron
from station.clock.zones import UnknownZone, zone_of

SHOWN = 10


class RuleForm(forms.ModelForm):
    """The rule fields of a schedule. Used to validate the input, never saved."""

    weekdays = forms.CharField(required=False)
    zone = forms.CharField(max_length=40)

    class Meta:
        model = Schedule
        fields = ["kind", "zone", "first_on", "start_time", "length", "weekdays", "cron", "until_on", "count", "ends"]


@never_cache
@require_safe
@login_required
def schedule_preview(request: HttpRequest) -> HttpResponse:
    """The fragment below the form. For an incomplete rule it shows what is missing."""
    given = request.GET.copy()
    given["weekdays"] = "".join(sorted(set(given.getlist("weekdays"))))
    form = RuleForm(given)
    if not form.is_valid():
        wrong = [f"{form.fields[name].label or name}: {errors[0]}" for name, errors in form.errors.items() if errors]
        return render(request, "scheduling/schedule_preview.html", {"missing": wrong})
    return render(request, "scheduling/schedule_preview.html", preview_context(form.instance))


def preview_context(schedule: Schedule | None) -> dict[str, Any]:
    """The description, windows and clock changes of a rule; empty for a new schedule."""
    if schedule is None:
        return {"missing": []}
    now = timezone.now()
    try:
        rule, zone = schedule.rule, zone_of(schedule.zone)
        found = list(islice(occurrences(rule, now, with_exceptions=True), SHOWN))
        changes = describe_changes(rule, now)
        words = schedule.in_words
    except (BadCron, UnknownZone, ValidationError, ValueError, OverflowError) as error:
        return {"missing": [str(error)]}

    def row(starts_at: datetime, ends_at: datetime, *, is_skipped: bool) -> dict[str, Any]:
        local, length = starts_at.astimezone(zone), ends_at - starts_at
        return {
            "day": f"{local:%a %Y-%m-%d}",
            "starts": f"{local:%H:%M:%S} {local:%Z}",
            "ends": f"{ends_at.astimezone(zone):%H:%M:%S}",
            "length": spoken(length.total_seconds()),
            "is_odd": abs(length - rule.length) > timedelta(seconds=1),
            "is_skipped": is_skipped,
        }

    windows = [row(each.starts_at, each.ends_at, is_skipped=each.is_exception) for each in found]
    return {"words": words, "windows": windows, "changes": changes}
