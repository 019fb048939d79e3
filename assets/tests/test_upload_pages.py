"""Uploads and watch folders in the admin (A-06, S-07)."""

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from assets.intake import imports
from assets.models import Import, WatchFolder
from station.models import Project
from testing.fleet import work_off

pytestmark = pytest.mark.django_db


def test_an_upload_becomes_an_asset(operator: Client, project: Project, stored_clip: Path) -> None:
    """A-06"""
    upload = SimpleUploadedFile("News of today.ts", stored_clip.read_bytes())
    answer = operator.post(reverse("import-media"), {"project": project.pk, "files": [upload]})
    assert answer.status_code == 302
    work_off(imports.JOB)
    row = Import.objects.get()
    assert (row.state, row.name, row.requested_by) == (Import.State.DONE, "News of today.ts", "operator-news")
    assert not Path(row.source).exists()
    assert "News of today" in operator.get(reverse("admin:assets_import_changelist")).content.decode()


def test_a_text_file_is_refused_on_the_page(operator: Client, project: Project) -> None:
    """A-06, S-07"""
    upload = SimpleUploadedFile("notes.txt", b"not media at all " * 30)
    operator.post(reverse("import-media"), {"project": project.pk, "files": [upload]})
    work_off(imports.JOB)
    row = Import.objects.get()
    page = operator.get(reverse("admin:assets_import_change", args=[row.pk])).content.decode()
    assert "notes.txt is not readable media" in page


def test_a_too_large_upload_is_refused_before_it_is_read(operator: Client, project: Project, settings: Any) -> None:
    """S-07: the size limit."""
    settings.UPLOAD_LIMIT_MB = 1
    upload = SimpleUploadedFile("big.ts", b"x" * (3 * 1024 * 1024))
    answer = operator.post(reverse("import-media"), {"project": project.pk, "files": [upload]})
    assert answer.status_code == 413
    assert "larger than 1 MB" in answer.content.decode()
    assert not Import.objects.exists()


def test_an_upload_needs_a_file_a_project_and_the_right(
    operator: Client, stranger: Client, project: Project, make_member: Any
) -> None:
    """S-01, S-07"""
    url = reverse("import-media")
    assert "Choose at least one file" in operator.post(url, {"project": project.pk}).content.decode()
    upload = SimpleUploadedFile("a.ts", b"x")
    assert operator.post(url, {"project": 9999, "files": [upload]}).status_code == 200
    assert stranger.post(url, {"project": project.pk, "files": [SimpleUploadedFile("a.ts", b"x")]}).status_code == 200
    viewer = Client()
    viewer.force_login(make_member(project, "viewer"))
    assert viewer.get(url).status_code == 403
    assert not Import.objects.exists()


def test_an_upload_needs_the_csrf_token(project: Project, make_member: Any) -> None:
    """S-02: although the limit is checked first."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_member(project, "operator"))
    upload = SimpleUploadedFile("a.ts", b"x")
    assert client.post(reverse("import-media"), {"project": project.pk, "files": [upload]}).status_code == 403


def test_a_watch_folder_outside_of_the_roots_is_refused_beside_the_field(engineer: Client, project: Project) -> None:
    """S-07"""
    form = {"name": "x", "project": project.pk, "path": "/etc", "settle_seconds": 10, "afterwards": "leave"}
    page = engineer.post(reverse("admin:assets_watchfolder_add"), form).content.decode()
    assert "IMPORT_ROOTS" in page
    assert not WatchFolder.objects.exists()
