"""What the pages say: names instead of IDs, words instead of stored values, house time, and errors with a way out."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from assets.models import Asset, Destination
from jobs.models import Run
from jobs.runs.queue import run_by_hand
from playout.models import Channel
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from station import audit
from station.alerts import raise_alert
from station.models import Alert, AuditEntry

pytestmark = [pytest.mark.django_db]

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
NOW = datetime(2026, 7, 1, 18, 0, tzinfo=UTC)


@pytest.fixture
def client(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def recorder(project: Any) -> Recorder:
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


def page_of(client: Client, row: Any) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return str(client.get(reverse(name, args=[row.pk])).content.decode())


def test_an_alert_names_and_links_what_it_is_about(client: Client, recorder: Recorder) -> None:
    alert = raise_alert("fire", "Fire", now=NOW, project=recorder.project, subject=audit.subject_of(recorder))

    page = page_of(client, alert)

    address = reverse("admin:scheduling_recorder_change", args=[recorder.pk])
    assert f'<a class="text-link" href="{address}">Cam</a>' in page


def test_an_alert_about_something_that_is_gone_still_shows_its_page(client: Client, project: Any) -> None:
    for subject in ("", "recorder:4711", "node:abc", "nothing", "a:b:c"):
        alert = raise_alert(f"fire {subject}", "Fire", now=NOW, project=project, subject=subject)
        assert client.get(reverse("admin:station_alert_change", args=[alert.pk])).status_code == 200


def test_an_alert_is_acknowledged_and_resolved_on_its_own_page(client: Client, project: Any) -> None:
    alert = raise_alert("fire", "Fire", now=NOW, project=project)
    names = {"acknowledge": Alert.State.ACKNOWLEDGED, "resolve": Alert.State.RESOLVED}

    for name, state in names.items():
        address = reverse(f"admin:station_alert_{name}", args=[alert.pk])
        assert address in page_of(client, alert)
        client.post(address, {"_form_submitted": "1"})
        alert.refresh_from_db()
        assert alert.state == state, name

    assert reverse("admin:station_alert_resolve", args=[alert.pk]) not in page_of(client, alert)


def test_the_history_of_a_state_uses_words(client: Client, project: Any) -> None:
    channel = Channel.objects.create(name="One", project=project)
    assert channel.move(Channel.State.STARTING, now=NOW, by="anna")

    page = page_of(client, channel)

    assert "off air → starting" in page
    assert "off_air →" not in page


def test_the_history_button_shows_everything_that_people_did(client: Client, recorder: Recorder) -> None:
    """Django's own history does not know the buttons."""
    audit.record("anna", "start", recorder, note="Cam is recording on n1.")
    audit.record("anna", "start", Recorder.objects.create(name="Other", project=recorder.project, source_type="test"))

    page = client.get(reverse("admin:scheduling_recorder_history", args=[recorder.pk]), follow=True).content.decode()

    assert "Cam is recording on n1." in page
    assert "Other" not in page


def test_an_audit_entry_shows_each_change_in_a_line(client: Client, recorder: Recorder) -> None:
    before = {"name": "Old", "is_active": True, "node_labels": ""}
    after = {"name": "Cam", "is_active": False, "node_labels": "studio-a"}
    entry = audit.record("anna", "change", recorder, before=before, after=after)

    page = page_of(client, entry)

    assert "name: Old → Cam" in page
    assert "is active: yes → no" in page
    assert "node labels: (empty) → studio-a" in page


def test_an_audit_entry_of_a_deleted_object_keeps_its_name(client: Client, recorder: Recorder) -> None:
    entry = audit.record("anna", "delete", recorder, before=audit.values_of(recorder))
    recorder.delete()
    assert "Cam (recorder:" in page_of(client, AuditEntry.objects.get(pk=entry.pk))


def test_errors_and_gaps_of_a_booking_are_in_house_time(client: Client, recorder: Recorder) -> None:
    booking = book(recorder, NOW, NOW + timedelta(hours=1), now=NOW, by="anna")
    gap = {"from_at": "2026-07-01T18:00:00+00:00", "to_at": "2026-07-01T18:00:05+00:00", "seconds": 5, "reason": "x"}
    errors = [{"at": "2026-07-01T18:00:00+00:00", "attempt": 1, "error": "no node"}]
    Booking.objects.update(gaps=[gap], errors=errors)

    page = page_of(client, booking)

    assert "2026-07-01 20:00:00 CEST to 2026-07-01 20:00:05 CEST" in page
    assert "attempt 1, 2026-07-01 20:00:00 CEST: no node" in page


def test_a_booking_links_the_asset_to_watch(client: Client, recorder: Recorder) -> None:
    booking = book(recorder, NOW, NOW + timedelta(hours=1), now=NOW, by="anna")
    title = "Cam 2026-07-01 20:00"
    asset = Asset.objects.create(
        title=title, project=recorder.project, origin="recording", booking=booking, created_at=NOW
    )

    address = reverse("admin:assets_asset_change", args=[asset.pk])
    assert f'<a class="text-link" href="{address}">{title}</a>' in page_of(client, booking)


def test_errors_of_a_run_are_in_house_time(client: Client) -> None:
    run_by_hand("runs.retention", by="anna")
    run = Run.objects.get()
    Run.objects.update(errors=[{"at": "2026-07-01T18:00:00+00:00", "attempt": 1, "code": "x", "text": "y"}])
    assert "Attempt 1, 2026-07-01 20:00:00 CEST" in page_of(client, run)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_a_list_leaves_out_filters_that_no_row_can_match(model: Any, client: Client) -> None:
    """A link that was cut or edited is no error of the server."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    times = [field.name for field in model._meta.fields if field.get_internal_type() == "DateTimeField"]
    texts = [field.name for field in model._meta.fields if field.get_internal_type() in {"CharField", "TextField"}]
    wrong = [f"{name}__year={year}" for name in times for year in ("-5", "0", "99999999")]
    wrong += [f"{name}__exact=%00" for name in texts]
    for query in [*wrong, "q=%00", "p=99999999999999999999", "o=99.-99"]:
        assert client.get(f"{address}?{query}").status_code in {200, 302, 400}, query


def test_a_search_field_with_something_that_is_no_object_is_refused_beside_the_field(client: Client) -> None:
    for wrong in ("abc", "1.5", "\x00", "9" * 400, "-1"):
        page = client.post(reverse("admin:playout_channel_add"), {"name": "One", "filler": wrong})
        assert page.status_code == 200
        assert page.context["adminform"].form.errors["filler"], wrong


def test_a_broken_web_address_is_refused_beside_its_field(client: Client, project: Any) -> None:
    """S-07: of an alert route, and of a destination that already has a secret."""
    for wrong in ("http://[", "https://[::1", "https://a:99999999"):
        route = {"name": "Desk", "channel": "webhook", "target": wrong, "min_severity": "20"}
        page = client.post(reverse("admin:station_alertroute_add"), route).content.decode()
        assert "The host or the port in the address is not valid." in page

    mam = Destination(project=project, name="MAM", connector="http", config={"base_url": "https://mam.example"})
    mam.set_secret("token-for-tests")
    mam.save()
    form = {"name": "MAM", "project": project.pk, "connector": "http", "config": '{"base_url": "https://["}'}
    page = client.post(reverse("admin:assets_destination_change", args=[mam.pk]), form).content.decode()
    assert "The host or the port in the address is not valid." in page


def test_error_pages_explain_and_lead_back(client: Client, settings: Any) -> None:
    """403, 404 and 500 look like Airlock, not like a bare server."""
    settings.DEBUG = False
    forbidden = client.get(reverse("admin:playout_asrunentry_add"))
    missing = client.get("/admin/scheduling/recorder/4711/change/")
    for answer, words in ((forbidden, "You don&#x27;t have permission"), (missing, "There is no such page")):
        page = answer.content.decode()
        assert words.replace("&#x27;", "'") in page
        assert reverse("admin:index") in page


def test_the_page_of_an_internal_error_needs_no_request() -> None:
    from django.test import RequestFactory
    from django.views.defaults import server_error

    page = server_error(RequestFactory().get("/")).content.decode()
    assert "Recordings and channels continue" in page


def test_no_page_of_ours_has_inline_script_or_style() -> None:
    """The content security policy would block it."""
    for path in Path(settings.BASE_DIR, "templates").rglob("*.html"):
        assert not re.search(r"<script(?![^>]*src=)|<style| style=", path.read_text()), path


def test_the_login_page_offers_no_other_site() -> None:
    page = Client().get(reverse("admin:login")).content.decode()
    assert "Return to site" not in page
