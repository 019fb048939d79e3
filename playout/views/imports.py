"""Imports a playlist from a file: first a preview, then a second button saves it (P-12)."""

import base64
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget

from assets.models import Asset
from playout.lists import imports
from playout.lists.controls import fill
from playout.lists.import_formats import ENDINGS
from playout.lists.list_timing import channels_of, rate_of
from playout.models import Playlist
from station.admin.base import who
from station.rights import only_visible

MOST_DIGITS = 18  # fits PostgreSQL's bigint


class ImportForm(forms.Form):
    playlist = forms.ModelChoiceField(Playlist.objects.none(), widget=UnfoldAdminSelectWidget)
    file = forms.FileField(label=f"Playlist ({ENDINGS})", required=False, widget=UnfoldAdminFileFieldWidget)
    name = forms.CharField(required=False, widget=forms.HiddenInput)
    content = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if upload is not None:
            if upload.size > imports.MOST_BYTES:
                self.add_error("file", f"The file is larger than {imports.MOST_BYTES // 1024 // 1024} MB.")
            else:
                cleaned["name"], cleaned["bytes"] = upload.name, upload.read()
        elif cleaned.get("content"):
            try:
                cleaned["bytes"] = base64.b64decode(cleaned["content"], validate=True)
            except ValueError:
                self.add_error("file", "Choose the file again.")
        else:
            self.add_error("file", "Choose a file.")
        return cleaned


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def import_playlist(request: HttpRequest) -> HttpResponse:
    """Save only a file without problems, after the user has seen the preview."""
    if not request.user.is_staff or not request.user.has_perm("playout.change_playlist"):
        raise PermissionDenied
    form = ImportForm(request.POST or None, request.FILES or None)
    lists = only_visible(Playlist.objects.all(), request.user, "playout.change_playlist")
    form.fields["playlist"].queryset = lists  # type: ignore[attr-defined]
    context: dict[str, Any] = {**admin.site.each_context(request), "title": "Import a playlist", "form": form}
    if request.method != "POST" or not form.is_valid():
        return render(request, "playout/import_playlist.html", context)
    playlist, name = form.cleaned_data["playlist"], form.cleaned_data["name"]
    try:
        file = imports.read(name, form.cleaned_data["bytes"], rate_of(channels_of(playlist)))
    except imports.NotReadable as fault:
        form.add_error("file", str(fault))
        return render(request, "playout/import_playlist.html", context)
    assets = only_visible(Asset.objects.all(), request.user, "assets.view_asset").filter(project=playlist.project)
    preview = imports.look(file, assets, _choices(request))
    if "save" in request.POST and preview.is_good:
        messages.success(request, fill(playlist, by=who(request), preview=preview, name=name).text)
        return redirect("admin:playout_playlist_change", playlist.pk)
    content = base64.b64encode(form.cleaned_data["bytes"]).decode()
    context |= {"preview": preview, "playlist": playlist, "name": name, "content": content}
    context["other_day"] = file.on if file.on and playlist.on and file.on != playlist.on else None
    return render(request, "playout/import_playlist.html", context)


def _choices(request: HttpRequest) -> dict[int, int]:
    """What the user chose for lines of the file: one of the candidates, an asset by its number, or to leave it out."""
    found: dict[int, int] = {}
    for name, value in request.POST.items():
        kind, _, line = name.partition("-")
        if kind not in {"choice", "number"} or not (_is_number(line) and _is_number(str(value))):
            continue
        if kind == "number" or int(line) not in found:  # a typed number wins
            found[int(line)] = int(str(value))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
