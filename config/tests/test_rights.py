"""Rights per project: in lists, objects, foreign keys, actions, history; foreign objects are 404 (S-01, S-02)."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from nodes.models import Node, Workload
from playout.models import Channel
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from station.models import AuditEntry, Membership, Project

pytestmark = [pytest.mark.django_db]


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def change_url(recorder: Recorder) -> str:
    return reverse("admin:scheduling_recorder_change", args=[recorder.pk])


@pytest.mark.parametrize("role", ["viewer", "operator", "engineer"])
def test_lists_contain_only_the_user_s_projects(role: str, project: Project, recorders: Any, make_member: Any) -> None:
    """S-01."""
    client = client_of(make_member(project, role))

    page = client.get(reverse("admin:scheduling_recorder_changelist")).content.decode()

    assert "News cam" in page
    assert "Sport cam" not in page
    assert "Orphan cam" not in page


@pytest.mark.parametrize("name", ["sport", "nobody"])
@pytest.mark.parametrize("page", ["change", "history", "delete"])
def test_foreign_objects_are_404_on_every_page(
    name: str, page: str, project: Project, recorders: Any, make_member: Any
) -> None:
    """S-01: an object without a project is for administrators only."""
    client = client_of(make_member(project, "engineer"))

    answer = client.get(reverse(f"admin:scheduling_recorder_{page}", args=[recorders[name].pk]))

    assert answer.status_code == 404


@pytest.mark.parametrize("action", ["start_detail", "stop_detail", "start_row", "stop_row"])
def test_foreign_recorders_cannot_be_operated(action: str, project: Project, recorders: Any, make_member: Any) -> None:
    """S-01, S-02."""
    client = client_of(make_member(project, "operator"))
    url = reverse(f"admin:scheduling_recorder_{action}", args=[recorders["sport"].pk])

    answer = client.post(url, {"_form_submitted": "on"})

    assert answer.status_code == 404
    assert not Booking.objects.exists()


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("engineer", 200)])
def test_a_viewer_may_look_but_not_change(
    role: str, status: int, project: Project, recorders: Any, make_member: Any
) -> None:
    client = client_of(make_member(project, role))
    assert client.get(change_url(recorders["news"])).status_code == 200

    answer = client.post(change_url(recorders["news"]), {"name": ""})

    assert answer.status_code == status
    assert Recorder.objects.get(pk=recorders["news"].pk).name == "News cam"


def test_an_engineer_cannot_move_a_recorder_into_a_foreign_project(
    project: Project, sport: Project, recorders: Any, make_member: Any
) -> None:
    """S-01: foreign keys offer and accept only objects of the user's projects."""
    client = client_of(make_member(project, "engineer"))
    page = client.get(change_url(recorders["news"])).content.decode()
    assert "Sport" not in page

    data = form_data(recorders["news"], project=sport.pk)
    answer = client.post(change_url(recorders["news"]), data)

    assert answer.status_code == 200
    assert "not one of the available choices" in answer.content.decode()
    assert Recorder.objects.get(pk=recorders["news"].pk).project == project


def form_data(recorder: Recorder, **changes: Any) -> dict[str, Any]:
    names = ["name", "source_type", "address", "container", "folder_template", "picture_size", "video_bitrate"]
    names += ["split_minutes", "node_labels", "pad_before_seconds", "pad_after_seconds"]
    return {
        **{name: getattr(recorder, name) for name in names},
        "project": recorder.project_id,
        "is_active": "on",
        **changes,
    }


def test_a_role_counts_only_in_its_own_project(
    project: Project, sport: Project, recorders: Any, make_member: Any
) -> None:
    user = make_member(project, "engineer")
    Membership.objects.create(project=sport, user=user, role=Group.objects.get(name="viewer"))
    client = client_of(user)

    assert client.post(change_url(recorders["sport"]), {}).status_code == 403
    assert client.get(change_url(recorders["sport"])).status_code == 200
    assert client.get(reverse("recorder-now", args=[recorders["sport"].pk])).status_code == 200


def test_the_group_administrator_may_do_everything(recorders: Any) -> None:
    user = User.objects.create_user("chief", is_staff=True)
    user.groups.add(Group.objects.get(name="administrator"))
    client = client_of(user)

    for recorder in recorders.values():
        assert client.get(change_url(recorder)).status_code == 200
    assert client.get(reverse("admin:auth_user_changelist")).status_code == 200


@pytest.mark.parametrize("role", ["viewer", "operator", "engineer"])
def test_people_projects_and_routes_are_for_administrators(role: str, project: Project, make_member: Any) -> None:
    client = client_of(make_member(project, role))

    for name in ("auth_user", "auth_group", "station_alertroute"):
        assert client.get(reverse(f"admin:{name}_changelist")).status_code == 403
    assert client.get(reverse("admin:station_project_add")).status_code == 403


def test_live_fragments_need_a_login_and_the_permission(project: Project, recorders: Any, make_member: Any) -> None:
    """A-09: pictures, too."""
    url = reverse("recorder-now", args=[recorders["sport"].pk])
    assert Client().get(url).status_code == 302
    assert client_of(make_member(project, "engineer")).get(url).status_code == 404


def test_get_and_head_change_nothing(admin_user: User, recorders: Any) -> None:
    """S-02: every action is POST; opening its dialog does nothing."""
    client = client_of(admin_user)
    for action in ("start_detail", "stop_detail", "start_row", "stop_row"):
        url = reverse(f"admin:scheduling_recorder_{action}", args=[recorders["news"].pk])
        assert client.get(url).status_code == 200
        assert client.head(url).status_code == 200
        assert client.get(url, {"_form_submitted": "on"}).status_code == 200
    assert not Booking.objects.exists()
    assert not AuditEntry.objects.exists()


def test_actions_need_a_csrf_token(admin_user: User, recorders: Any) -> None:
    """S-02."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    url = reverse("admin:scheduling_recorder_start_detail", args=[recorders["news"].pk])

    assert client.post(url, {"_form_submitted": "on"}).status_code == 403


def test_a_hostile_name_cannot_script_the_admin(admin_user: User, project: Project) -> None:
    """S-06."""
    Recorder.objects.create(name="<script>alert(1)</script>", project=project, source_type="test")
    Node.objects.create(name="n", address="process", media_dir="/m", labels="")
    client = client_of(admin_user)

    for name in ("scheduling_recorder_changelist", "scheduling_booking_changelist"):
        answer = client.get(reverse(f"admin:{name}"))
        assert "<script>alert" not in answer.content.decode()
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


def test_a_foreign_channel_is_404_in_every_form(project: Project, sport: Project, make_member: Any) -> None:
    """S-01, A-09: page, picture, as-run, guide and buttons."""
    channel = Channel.objects.create(name="Sport one", project=sport)
    client = client_of(make_member(project, "engineer"))
    paths = ["now/", "as-run/today.csv", "as-run/today.json", "as-run/today.html", "guide.xml"]
    urls = [f"/channels/{channel.pk}/{path}" for path in paths]
    urls += [f"/media/live/{channel.pk}/{name}" for name in ("index.m3u8", "frame.jpg", "..%2fframe.jpg")]
    urls += [reverse("admin:playout_channel_change", args=[channel.pk])]
    for url in urls:
        assert client.get(url).status_code == 404, url
        assert Client().get(url).status_code in {302, 404}, url
    for word in ("start", "stop", "play", "pause", "skip", "move"):
        url = reverse(f"admin:playout_channel_{word}_channel", args=[channel.pk])
        assert client.post(url, {"_form_submitted": "on"}).status_code == 404, url
    channel.refresh_from_db()
    assert not channel.is_wanted


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 200)])
def test_only_operators_can_start_a_channel(role: str, status: int, project: Project, make_member: Any) -> None:
    """S-01, S-02: POST by an operator; a GET changes nothing."""
    channel = Channel.objects.create(name="News one", project=project)
    client = client_of(make_member(project, role))
    url = reverse("admin:playout_channel_start_channel", args=[channel.pk])
    client.get(url)
    channel.refresh_from_db()
    assert not channel.is_wanted
    assert client.post(url, {"_form_submitted": "on"}).status_code == status


@pytest.mark.parametrize("role", ["viewer", "operator", "engineer"])
def test_every_page_a_role_may_open_opens_and_shows_nothing_foreign(
    role: str, project: Project, sport: Project, recorders: Any, make_member: Any
) -> None:
    """S-01: lists and their filters, for every model and role."""
    client = client_of(make_member(project, role))
    opened = []
    for model in admin.site._registry:
        answer = client.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))
        assert answer.status_code in {200, 403}, model
        if answer.status_code == 200:
            opened.append(model._meta.model_name)
            page = answer.content.decode()
            assert "Sport" not in page, model
            assert "Orphan cam" not in page, model
    expected = {"viewer": 10, "operator": 13, "engineer": 24}
    assert len(opened) == expected[role], opened


def test_workloads_and_reservations_belong_to_their_project(project: Project, sport: Project, make_member: Any) -> None:
    """S-01: users of other projects do not see them."""
    node = Node.objects.create(name="n", address="process", media_dir="/m")
    now = timezone.now()
    for number, owner in enumerate((project, sport, None)):
        Workload.objects.create(
            owner=f"x:{number}",
            generation=1,
            project=owner,
            node=node,
            name=f"work-{owner or 'nobody'}",
            program="capture",
            control_port=9600 + number,
            state="running",
            created_at=now,
        )
    client = client_of(make_member(project, "engineer"))

    page = client.get(reverse("admin:nodes_workload_changelist")).content.decode()

    assert "work-News" in page
    assert "work-Sport" not in page
    assert "work-nobody" not in page


def test_objects_with_history_are_switched_off_not_deleted(admin_user: User, recorders: Any) -> None:
    now = timezone.now()
    book(recorders["news"], now, now + timedelta(hours=1), now=now)
    client = client_of(admin_user)
    url = reverse("admin:scheduling_recorder_delete", args=[recorders["news"].pk])

    assert client.post(url, {"post": "yes"}).status_code == 403
    assert Recorder.objects.filter(pk=recorders["news"].pk).exists()
