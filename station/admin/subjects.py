"""Links to what a stored text like "booking:12" names: the subject of an alert, the owner of a workload or a run."""

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from station.admin.base import find


def link_to(subject: str) -> SafeString | str:
    """A link with the object's name; the text itself if there is no such object or it has no page.

    The object belongs to the project of the row that names it. Its own page checks the rights once more.
    """
    kind, _, pk = subject.partition(":")
    model = next((each for each in admin.site._registry if each._meta.model_name == kind), None)
    row = find(model._base_manager.all(), pk) if model else None
    if model is None or row is None:
        return subject or "–"
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
    return format_html('{} <a class="text-link" href="{}">{}</a>', model._meta.verbose_name, url, row)
