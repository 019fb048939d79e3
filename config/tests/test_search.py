"""The search boxes find words by their beginnings, in any order, and read an index instead of the table."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from assets.models import Asset, AssetPart
from scheduling.models import Booking, Recorder
from station.models import AuditEntry, Project

pytestmark = [pytest.mark.django_db, pytest.mark.database]

HOUR = timedelta(hours=1)
SEARCHED = ["scheduling.Booking", "assets.Asset", "assets.Import", "assets.Delivery", "station.AuditEntry"]
SEARCHED += ["station.Alert", "playout.AsRunEntry", "nodes.Workload", "nodes.Reservation"]


def page_of(label: str) -> Any:
    return next(page for model, page in admin.site._registry.items() if model._meta.label == label)


def found(user: User, label: str, text: str) -> list[str]:
    """The rows that the search box shows, as text."""
    page = page_of(label)
    request = RequestFactory().get("/", {"q": text})
    request.user = user
    rows, has_duplicates = page.get_search_results(request, page.get_queryset(request), text)
    assert not has_duplicates
    return sorted(str(row) for row in rows)


@pytest.fixture
def studio(project: Project) -> Recorder:
    return Recorder.objects.create(name="Studio-B Zürich", project=project, source_type="test")


@pytest.fixture
def shows(studio: Recorder) -> list[Booking]:
    now = timezone.now()
    rows = []
    for number, title in enumerate(("Evening News", "Morning show", "Late evening")):
        at = now + 2 * number * HOUR
        rows.append(
            Booking(
                recorder=studio,
                title=title,
                state="planned",
                starts_at=at,
                ends_at=at + HOUR,
                opens_at=at,
                closes_at=at + HOUR,
                requested_by="anna",
                folder=f"news/2026-03-2{number}/studio_b",
                file_name=f"cam-1_take{number}.ts",
            )
        )
    return Booking.objects.bulk_create(rows)


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("evening", ["Evening News", "Late evening"]),
        ("eve NEWS", ["Evening News", "Late evening"]),
        ("news eve", ["Evening News", "Late evening"]),
        ("late", ["Late evening"]),
        ("take1", ["Morning show"]),
        ("cam-1_take1.ts", ["Morning show"]),
        ("2026-03-22", ["Late evening"]),
        ("studio", ["Evening News", "Late evening", "Morning show"]),
        ("zürich late", ["Late evening"]),
        ("anna morning", ["Morning show"]),
        ("vening", []),
        ("evening tomorrow", []),
        ("% ' | & ! ( :*", []),
        ("", ["Evening News", "Late evening", "Morning show"]),
    ],
)
def test_bookings_are_found_by_the_beginnings_of_words(
    text: str, titles: list[str], shows: list[Booking], admin_user: User
) -> None:
    """By title, recorder, user, folder and file name; words in any order."""
    assert found(admin_user, "scheduling.Booking", text) == titles


def test_a_booking_is_found_by_its_number(shows: list[Booking], admin_user: User) -> None:
    assert str(shows[1]) in found(admin_user, "scheduling.Booking", str(shows[1].pk))
    assert found(admin_user, "scheduling.Booking", "9" * 30) == []


def test_an_asset_is_found_by_title_recorder_file_and_checksum(
    project: Project, shows: list[Booking], admin_user: User
) -> None:
    common: dict[str, Any] = {"project": project, "state": "ready", "created_at": timezone.now()}
    checksum = "5e" * 32
    recorded = Asset.objects.create(title="Interview", origin="recording", booking=shows[0], sha256=checksum, **common)
    AssetPart.objects.create(asset=recorded, number=1, path="/m/news/interview_raw-7.ts")
    Asset.objects.create(title="Opener", origin="import", **common)
    for text in ("inter", "raw", "zürich", "studio raw inter", checksum, checksum.upper()):
        assert found(admin_user, "assets.Asset", text) == ["Interview"], text
    assert found(admin_user, "assets.Asset", "open") == ["Opener"]


def test_a_member_finds_only_the_rows_of_the_own_project(
    project: Project, shows: list[Booking], make_member: Any
) -> None:
    """S-01."""
    other = Project.objects.create(name="Sport", slug="sport")
    assert len(found(make_member(project, "viewer"), "scheduling.Booking", "evening")) == 2
    assert found(make_member(other, "viewer"), "scheduling.Booking", "evening") == []


@pytest.mark.parametrize("label", SEARCHED)
def test_the_search_page_of_every_long_list_renders(label: str, admin_user: User) -> None:
    client = Client()
    client.force_login(admin_user)
    model = page_of(label).model._meta
    page = client.get(reverse(f"admin:{model.app_label}_{model.model_name}_changelist"), {"q": "evening 12"})
    assert (page.status_code, 'name="q"' in page.content.decode()) == (200, True)


def test_a_search_reads_the_index_and_not_the_table(project: Project, admin_user: User) -> None:
    now = timezone.now()
    AuditEntry.objects.bulk_create(
        AuditEntry(at=now, who="anna", what="x", subject="y:1", subject_name=f"row{number}", note="some longer text")
        for number in range(3000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE station_auditentry")
    page = page_of("station.AuditEntry")
    request = RequestFactory().get("/", {"q": "row77"})
    request.user = admin_user
    for text in ("row77", "anna row77"):
        assert "audit_words" in page._find(page.get_queryset(request), text.split()).explain()
        rows, _ = page.get_search_results(request, page.get_queryset(request), text)
        assert rows.count() == 11
