"""Changes are in the audit trail (S-02)."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from config.tests.test_rights import change_url, client_of, form_data
from scheduling.bookings.controls import skip
from scheduling.bookings.making import book
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db]


def test_a_change_is_recorded_with_before_and_after(admin_user: User, recorders: Any) -> None:
    """S-02: who, what, before, after."""
    client = client_of(admin_user)
    data = form_data(recorders["news"], name="News cam 2", new_secret="")

    assert client.post(change_url(recorders["news"]), data).status_code == 302

    entry = AuditEntry.objects.get()
    assert (entry.who, entry.what, entry.subject) == ("boss", "change", f"recorder:{recorders['news'].pk}")
    assert (entry.before, entry.after) == ({"name": "News cam"}, {"name": "News cam 2"})


def test_deleting_is_recorded(admin_user: User, recorders: Any) -> None:
    client = client_of(admin_user)
    url = reverse("admin:scheduling_recorder_delete", args=[recorders["news"].pk])

    assert client.post(url, {"post": "yes"}).status_code == 302

    assert AuditEntry.objects.get().what == "delete"
    assert AuditEntry.objects.get().before["name"] == "News cam"


def test_changes_of_users_are_recorded(admin_user: User) -> None:
    """S-02: users have rights, so changes of users are recorded, too."""
    client = client_of(admin_user)
    data = {
        "username": "new",
        "password1": "a-long-pass-word",
        "password2": "a-long-pass-word",
        "usable_password": "true",
    }

    assert client.post(reverse("admin:auth_user_add"), data).status_code == 302

    entry = AuditEntry.objects.get(what="add")
    assert entry.subject_name == "new"
    assert entry.after["password"] == "(secret)"


def test_what_is_done_to_a_booking_is_in_the_audit_trail_of_its_project(
    project: Any, sport: Any, recorders: Any, make_member: Any
) -> None:
    """S-01, S-02: an engineer of that project sees it, one of another project does not."""
    now = timezone.now()
    booking = book(recorders["news"], now + timedelta(days=1), now + timedelta(days=1, hours=1), now=now, title="Late")
    assert skip(booking, by="anna").is_good

    assert AuditEntry.objects.get().project == project
    page = reverse("admin:station_auditentry_changelist")
    assert "Late" in client_of(make_member(project, "engineer")).get(page).content.decode()
    assert "Late" not in client_of(make_member(sport, "engineer")).get(page).content.decode()
