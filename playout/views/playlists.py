"""The times of a list while it is edited, computed whenever the form changes. Nothing is saved here."""

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from assets.models import Asset
from playout.lists.broadcast_days import begin_of, day_of, is_plannable
from playout.lists.list_timing import Plan, Planned, plan, rate_of
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.models import Recorder
from station.clock.lengths import SecondsField
from station.rights import only_visible

MOST_ROWS = 2000
MOST_DIGITS = 19  # fits PostgreSQL's bigint
PREFIX = "items"


class Chosen(forms.Field):
    """A choice among rows that were fetched for the whole table."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.rows: Mapping[str, Model] = {}

    def to_python(self, value: Any) -> Model | None:
        if value in self.empty_values:
            return None
        try:
            return self.rows[str(value)]
        except KeyError:
            raise ValidationError("Select a valid choice.") from None


class RowForm(forms.ModelForm):
    """One row of the table, not saved yet."""

    asset = Chosen()
    source = Chosen()

    class Meta:
        model = PlaylistItem
        fields = ["position", "kind", "asset", "source", "title", "in_seconds", "out_seconds", "length_seconds"]
        fields += ["start_time", "start", "max_late_seconds"]
        field_classes = dict.fromkeys(PlaylistItem.LENGTHS, SecondsField)

    def _get_validation_exclusions(self) -> set[str]:
        """Skip checks that query the database for each row. `clean` checks in and out points."""
        return {*super()._get_validation_exclusions(), *CHOSEN, "out_seconds"}  # type: ignore[misc]


CHOSEN: dict[str, type[Model]] = {"asset": Asset, "source": Recorder}


@never_cache
@require_POST
@login_required
def playlist_times(request: HttpRequest) -> HttpResponse:
    """The fragment beside the form: times, total, warnings and form errors."""
    if not request.user.has_perm("playout.view_playlist"):
        raise PermissionDenied
    day = _day(request.POST.get("on", ""))
    playlist = Playlist(name=request.POST.get("name", ""), on=day)
    return render(request, "playout/times.html", {"plan": planned(request, day), "playlist": playlist})


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if is_plannable(day) else None  # saving the form reports the error


def channels_in_form(request: HttpRequest, playlist: str) -> list[Channel]:
    """The channels whose format counts: the one chosen in the form, or those that play this list on any day."""
    rows = only_visible(Channel.objects.all(), request.user, "playout.view_channel")
    if key := _key(request.POST.get("channel", "")):
        return list(rows.filter(pk=key))
    return list(rows.filter(playlist=key)) if (key := _key(playlist)) else []


def _key(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else None


def planned(request: HttpRequest, day: date | None) -> Plan:
    now = timezone.now()
    channels = channels_in_form(request, request.GET.get("playlist", ""))
    items, faults = read_rows(request.POST, request, rate_of(channels))
    begins_at = begin_of(day) if day else now
    found = plan(items, begins_at, day or day_of(now), channels, is_dated=day is not None)
    rows = [
        Planned(row.item, row.starts_at, row.ends_at, (*faults.get(id(row.item), ()), *row.warnings))
        for row in found.rows
    ]
    return Plan(rows)


def read_rows(
    data: QueryDict, request: HttpRequest, rate: Fraction | None
) -> tuple[list[PlaylistItem], dict[int, list[str]]]:
    """The items in order, and the form errors of each."""
    total = data.get(f"{PREFIX}-TOTAL_FORMS", "0")
    count = min(int(total), MOST_ROWS) if total.isascii() and total.isdigit() else 0
    known = {name: _known(model, name, data, count, request) for name, model in CHOSEN.items()}
    items: list[PlaylistItem] = []
    faults: dict[int, list[str]] = {}
    for number in range(count):
        prefix = f"{PREFIX}-{number}"
        if data.get(f"{prefix}-DELETE") or f"{prefix}-kind" not in data:
            continue
        form = RowForm(data, prefix=prefix)
        for name, rows in known.items():
            form.fields[name].rows = rows  # type: ignore[attr-defined]
        for name in PlaylistItem.LENGTHS:
            form.fields[name].rate = rate  # type: ignore[attr-defined]
        form.is_valid()
        items.append(form.instance)
        faults[id(form.instance)] = [str(error) for errors in form.errors.values() for error in errors]
    return sorted(items, key=lambda item: item.position or 0), faults


def _known(model: type[Model], name: str, data: QueryDict, count: int, request: HttpRequest) -> dict[str, Model]:
    """The rows of that model that the form names and the user may see, in one query."""
    named = {data.get(f"{PREFIX}-{number}-{name}", "") for number in range(count)}
    permission = f"{model._meta.app_label}.view_{model._meta.model_name}"
    rows = only_visible(model._default_manager.all(), request.user, permission)
    keys = [key for text in named if (key := _key(text)) is not None]
    return {str(row.pk): row for row in rows.filter(pk__in=keys)}
