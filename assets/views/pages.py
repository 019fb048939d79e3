"""Pages of the library: Import media, and Upcoming deletions."""

import os
import tempfile
import uuid
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.views.decorators import staff_member_required
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import StopUpload, TemporaryFileUploadHandler
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import ngettext
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe
from unfold.widgets import UnfoldAdminSelectWidget

from assets.files.locations import NoRoom, check_room, imports_dir
from assets.intake import imports
from assets.intake.controls import bring
from assets.library import retention
from assets.models import Asset, Import, RetentionRule
from station.admin.base import who
from station.badges import stamp
from station.clock import database_now
from station.models import Project
from station.rights import only_visible, projects_with

AHEAD = timedelta(days=7)
MEGABYTE = 1024 * 1024


class LimitedUpload(TemporaryFileUploadHandler):
    """Writes uploads to the library's disk, and stops at the limit whatever size the browser announced."""

    def __init__(self, request: HttpRequest | None = None) -> None:
        super().__init__(request)
        self.received = 0

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self.file.close()  # Django's own file is in the system's temp folder, which may be small or in memory
        folder = imports_dir() / imports.UPLOADS
        folder.mkdir(parents=True, exist_ok=True)
        self.file.file = tempfile.NamedTemporaryFile(dir=folder, prefix=".incoming-")  # noqa: SIM115

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.received += len(raw_data)
        if self.received > settings.UPLOAD_LIMIT_MB * MEGABYTE:
            raise StopUpload(connection_reset=True)
        super().receive_data_chunk(raw_data, start)


class UploadForm(forms.Form):
    project = forms.ModelChoiceField(Project.objects.none(), widget=UnfoldAdminSelectWidget)

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        allowed = projects_with(request.user, "assets.add_import")
        self.fields["project"].queryset = allowed  # type: ignore[attr-defined]
        if allowed.count() == 1:
            self.fields["project"].initial = allowed.first()


@csrf_exempt  # the token is checked inside, after the limit is in place: reading the form reads the file
@staff_member_required
@require_http_methods(["GET", "HEAD", "POST"])
def import_media(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("assets.add_import"):
        raise PermissionDenied
    if request.method == "POST":
        limit = settings.UPLOAD_LIMIT_MB * MEGABYTE + MEGABYTE  # the form around the file
        size = int(request.META.get("CONTENT_LENGTH") or 0)
        if size > limit:
            text = f"The upload is larger than {settings.UPLOAD_LIMIT_MB} MB. Use a watch folder instead."
            return _show(request, UploadForm(request), text, status=413)
        try:
            check_room(size)
        except NoRoom as fault:
            return _show(request, UploadForm(request), str(fault), status=507)
        request.upload_handlers = [LimitedUpload(request)]
    response: HttpResponse = _import_media(request)
    return response


@csrf_protect
def _import_media(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _show(request, UploadForm(request))
    form = UploadForm(request, request.POST)
    uploads = request.FILES.getlist("files")
    if not form.is_valid():
        return _show(request, form)
    if not uploads:
        return _show(request, form, "Choose at least one file.")
    for upload in uploads:
        take_upload(upload, form.cleaned_data["project"], who(request))
    words = ngettext("%d file is being imported.", "%d files are being imported.", len(uploads)) % len(uploads)
    messages.success(request, words)
    return redirect("admin:assets_import_changelist")


def take_upload(upload: UploadedFile, project: Project, by: str) -> Import:
    """Store the upload in its own folder under a fixed name, and queue its import."""
    folder = imports_dir() / imports.UPLOADS / uuid.uuid4().hex
    folder.mkdir(parents=True)
    path = folder / "upload"
    stored: Any = upload.file
    stored.flush()
    os.link(stored.name, path)  # Django deletes the first name when the request ends
    row = bring(project, by=by, path=path, way=Import.Way.UPLOAD, name=str(upload.name or "upload")).target
    assert isinstance(row, Import)  # the folder is new, so this file was not requested before
    return row


def _show(request: HttpRequest, form: UploadForm, error: str = "", status: int = 200) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": "Import media",
        "form": form,
        "error": error,
        "limit": settings.UPLOAD_LIMIT_MB,
    }
    return render(request, "assets/import_media.html", context, status=status)


@staff_member_required
@require_safe
def what_goes(request: HttpRequest) -> HttpResponse:
    """A dry run of retention for the coming week, and when assets in the trash are deleted."""
    if not request.user.has_perm("assets.view_asset"):
        raise PermissionDenied
    now = database_now()
    rules = only_visible(RetentionRule.objects.select_related("project"), request.user, "assets.view_asset")
    verdicts = [verdict for rule in rules.filter(is_active=True) for verdict in retention.judge(rule, now, ahead=AHEAD)]
    trashed = only_visible(Asset.objects.filter(trashed_at__isnull=False), request.user, "assets.view_asset")
    context = {
        **admin.site.each_context(request),
        "title": "Upcoming deletions",
        "rules": rules.filter(is_active=True).count(),
        "going": [_row(each, now) for each in verdicts if not each.kept_because],
        "kept": [_row(each, now) for each in verdicts if each.kept_because],
        "trash": [
            {"asset": asset, "when": stamp(asset.purge_at), "why": asset.trash_reason}
            for asset in trashed.exclude(state=Asset.State.DELETED).order_by("purge_at")
        ],
    }
    return render(request, "assets/what_goes.html", context)


def _row(verdict: retention.Verdict, now: Any) -> dict[str, Any]:
    goes_at = verdict.goes_at
    when = "within the hour" if goes_at is None or goes_at <= now else stamp(goes_at)
    return {"asset": verdict.asset, "when": when, "why": verdict.reason, "kept": verdict.kept_because}
