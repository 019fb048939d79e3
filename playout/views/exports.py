"""Downloads of the as-run log and the programme guide."""

from datetime import date

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from playout.asrun import exports
from playout.lists.broadcast_days import begin_of, day_of, is_plannable
from playout.views.channels import visible_channel


@require_safe
def asrun_day(request: HttpRequest, pk: int, day: str, form: str) -> HttpResponse:
    """One broadcast day as csv, json or a page to print."""
    channel = visible_channel(request, pk)
    try:
        on = date.fromisoformat(day) if day != "today" else day_of(timezone.now())
        if not is_plannable(on):
            raise ValueError("too far away")
    except ValueError as error:
        raise Http404("That is not a day.") from error
    entries = exports.entries_of(channel, on)
    name = f"as-run-{channel.pk}-{on}"
    if form == "csv":
        # Excel reads UTF-8 only if the file begins with a byte order mark.
        answer = HttpResponse("\ufeff" + exports.as_csv(entries), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
        return answer
    if form == "json":
        rows = [exports.row_of(entry) for entry in entries]
        return JsonResponse({"channel": channel.name, "day": on.isoformat(), "entries": rows})
    if form == "html":
        context = {"channel": channel, "day": on, "begin": begin_of(on), "rows": map(exports.row_of, entries)}
        return render(request, "playout/asrun_print.html", context)
    raise Http404("There is no such format.")


@require_safe
def guide(request: HttpRequest, pk: int) -> HttpResponse:
    """The planned programme as XMLTV."""
    channel = visible_channel(request, pk)
    return HttpResponse(exports.as_xmltv(channel, timezone.now()), content_type="application/xml")
