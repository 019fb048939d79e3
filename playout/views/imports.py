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
from playout.models import Playlist
from station.admin.base import who
from station.rights import only_visible


class ImportForm(forms.Form):
    playlist = forms.ModelChoiceField(Playlist.objects.none(), widget=UnfoldAdminSelectWidget)
    file = forms.FileField(
        label="Playlist (.m3u, .xspf, .csv or .json)", required=False, widget=UnfoldAdminFileFieldWidget
    )
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
        wanted = imports.read(name, form.cleaned_data["bytes"])
    except imports.NotReadable as fault:
        form.add_error("file", str(fault))
        return render(request, "playout/import_playlist.html", context)
    assets = only_visible(Asset.objects.all(), request.user, "assets.view_asset").filter(project=playlist.project)
    preview = imports.look(wanted, assets)
    if "save" in request.POST and preview.is_good:
        messages.success(request, fill(playlist, by=who(request), preview=preview, name=name).text)
        return redirect("admin:playout_playlist_change", playlist.pk)
    content = base64.b64encode(form.cleaned_data["bytes"]).decode()
    context |= {"preview": preview, "playlist": playlist, "name": name, "content": content}
    return render(request, "playout/import_playlist.html", context)
