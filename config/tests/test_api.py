"""The HTTP API: a token per person, the same rights as in the admin, explained refusals, and a description."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assets.models import Asset
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.models import Booking, Recorder
from station import tokens
from station.clock import database_now
from station.models import ApiToken, AuditEntry, Project

pytestmark = [pytest.mark.django_db]


class Caller:
    """An API client with a token."""

    def __init__(self, user: User) -> None:
        self.row, token = tokens.make(user, "desk", now=database_now(), by="test")
        self.headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str, **data: Any) -> Any:
        return Client().get(f"/api/{path}", data, headers=self.headers)

    def post(self, path: str, body: Any = None) -> Any:
        return self.send("post", path, body)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        call = getattr(Client(), method)
        return call(f"/api/{path}", body or {}, content_type="application/json", headers=self.headers)


@pytest.fixture
def house(project: Any, sport: Project) -> dict[str, Any]:
    now = database_now()
    made: dict[str, Any] = {}
    for name, owner in (("own", project), ("foreign", sport)):
        recorder = Recorder.objects.create(name=f"Cam {name}", project=owner, source_type="test")
        asset = Asset.objects.create(
            project=owner, title=f"Clip {name}", state="ready", state_since_at=now, origin="import", created_at=now
        )
        playlist = Playlist.objects.create(name=f"List {name}", project=owner)
        PlaylistItem.objects.create(playlist=playlist, asset=asset)
        channel = Channel.objects.create(name=f"Channel {name}", project=owner, playlist=playlist)
        made[name] = {"recorders": recorder, "assets": asset, "playlists": playlist, "channels": channel}
    return made


def test_without_a_valid_token_every_call_is_refused(house: Any, project: Any, make_member: Any) -> None:
    """S-01, S-05: no token, a wrong one, an inactive one, an inactive user; a session cookie is not accepted."""
    user = make_member(project, "operator")
    caller = Caller(user)
    assert caller.get("channels/").status_code == 200
    client = Client()
    client.force_login(user)
    assert client.get("/api/channels/").status_code == 401
    assert Client().get("/api/channels/").status_code == 401
    assert Client().get("/api/channels/", headers={"Authorization": "Bearer nonsense"}).status_code == 401
    ApiToken.objects.update(is_active=False)
    assert caller.get("channels/").status_code == 401
    ApiToken.objects.update(is_active=True)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert caller.get("channels/").status_code == 401


@pytest.mark.parametrize("kind", ["recorders", "assets", "playlists", "channels"])
def test_lists_and_objects_contain_only_the_user_s_projects(
    kind: str, house: Any, project: Any, make_member: Any
) -> None:
    """P-01, S-01."""
    caller = Caller(make_member(project, "viewer"))
    listed = caller.get(f"{kind}/").json()
    assert [row["id"] for row in listed] == [house["own"][kind].pk]
    assert caller.get(f"{kind}/{house['own'][kind].pk}").status_code == 200
    assert caller.get(f"{kind}/{house['foreign'][kind].pk}").status_code == 404
    caller.row.refresh_from_db()
    assert caller.row.last_used_at is not None


def test_a_viewer_cannot_operate_and_foreign_objects_are_404(house: Any, project: Any, make_member: Any) -> None:
    """S-01, S-02."""
    viewer, operator = Caller(make_member(project, "viewer")), Caller(make_member(project, "operator"))
    own, foreign = house["own"], house["foreign"]
    for word in ("start", "stop", "play", "pause", "skip", "move"):
        assert viewer.post(f"channels/{own['channels'].pk}/{word}").status_code == 403
        assert operator.post(f"channels/{foreign['channels'].pk}/{word}").status_code == 404
    assert viewer.post(f"recorders/{own['recorders'].pk}/start").status_code == 403
    assert operator.post(f"recorders/{foreign['recorders'].pk}/start").status_code == 404
    assert operator.post(f"channels/{own['channels'].pk}/explode").status_code == 422
    assert operator.get(f"channels/{own['channels'].pk}/start").status_code == 405
    assert not Channel.objects.filter(is_wanted=True).exists()
    assert not Booking.objects.exists()


def test_a_refusal_is_409_with_the_reason(house: Any, project: Any, make_member: Any) -> None:
    """P-01: with the same text as the buttons."""
    caller = Caller(make_member(project, "operator"))
    channel = house["own"]["channels"]
    answer = caller.post(f"channels/{channel.pk}/start")
    assert answer.status_code == 409
    assert "has no output" in answer.json()["detail"]
    answer = caller.post(f"channels/{channel.pk}/skip")
    assert (answer.status_code, answer.json()["detail"]) == (409, "Channel own is off air.")
    item = house["own"]["playlists"].items.get()
    assert caller.post(f"channels/{channel.pk}/cue", {"item": item.pk}).status_code == 409
    foreign = house["foreign"]["playlists"].items.get()
    assert caller.post(f"channels/{channel.pk}/cue", {"item": foreign.pk}).status_code == 404
    answer = caller.post(f"channels/{channel.pk}/insert", {"asset": house["own"]["assets"].pk})
    assert (answer.status_code, answer.json()["detail"]) == (409, "Channel own is off air.")
    assert caller.post(f"channels/{channel.pk}/insert", {"asset": house["foreign"]["assets"].pk}).status_code == 404
    viewer = Caller(make_member(project, "viewer"))
    assert viewer.post(f"channels/{channel.pk}/insert", {"asset": house["own"]["assets"].pk}).status_code == 403


def test_book_clash_extend_and_cancel(house: Any, project: Any, make_member: Any) -> None:
    """R-12, R-13, S-02, S-07 over HTTP."""
    caller = Caller(make_member(project, "operator"))
    recorder = house["own"]["recorders"]
    begin = database_now() + timedelta(hours=1)
    wanted = {"recorder": recorder.pk, "starts_at": begin.isoformat(), "title": "Evening"}
    wanted["ends_at"] = (begin + timedelta(hours=1)).isoformat()
    made = caller.post("bookings/", wanted)
    assert made.status_code == 201, made.content
    pk = made.json()["id"]
    clash = caller.post("bookings/", wanted)
    assert clash.status_code == 409
    assert "Free from" in clash.json()["detail"]
    assert caller.post(f"bookings/{pk}/extend", {"minutes": 15}).status_code == 200
    assert Booking.objects.get().ends_at == begin + timedelta(hours=1, minutes=15)
    assert [row["id"] for row in caller.get("bookings/", recorder=recorder.pk).json()] == [pk]
    assert caller.post(f"bookings/{pk}/cancel").status_code == 200
    assert caller.get(f"bookings/{pk}").json()["state"] == "cancelled"
    assert caller.post(f"bookings/{pk}/cancel").status_code == 409
    entries = AuditEntry.objects.filter(subject=f"booking:{pk}").values_list("what", flat=True)
    assert {"add", "extend", "cancel"} <= set(entries)
    for bad in (
        {},
        {**wanted, "starts_at": "yesterday"},
        {**wanted, "starts_at": "2026-11-17T20:00:00"},
        {**wanted, "recorder": "x"},
        {**wanted, "title": "x" * 500},
    ):
        assert caller.post("bookings/", bad).status_code == 422, bad
    backwards = {**wanted, "starts_at": wanted["ends_at"], "ends_at": wanted["starts_at"]}
    assert caller.post("bookings/", backwards).status_code == 409


def test_playlists_and_as_run_are_readable(house: Any, project: Any, make_member: Any) -> None:
    """P-10."""
    caller = Caller(make_member(project, "viewer"))
    detail = caller.get(f"playlists/{house['own']['playlists'].pk}").json()
    assert [item["title"] for item in detail["items"]] == ["Clip own"]
    day = caller.get(f"channels/{house['own']['channels'].pk}/as-run").json()
    assert day["entries"] == []
    assert caller.get(f"channels/{house['own']['channels'].pk}/as-run", day="nonsense").status_code == 422


def test_the_description_is_for_staff_and_names_every_path(admin_user: User) -> None:
    client = Client()
    assert client.get("/api/docs").status_code == 302
    client.force_login(admin_user)
    page = client.get("/api/docs")
    assert page.status_code == 200
    assert "https://" not in page.content.decode(), "nothing is loaded from other sites"
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/channels/{pk}/{word}", "/api/bookings/", "/api/assets/", "/api/recorders/{pk}/start"} <= set(paths)


def test_a_token_is_shown_once_and_stored_as_a_hash(admin_user: User) -> None:
    """S-05."""
    client = Client()
    client.force_login(admin_user)
    page = client.post("/admin/station/apitoken/add/", {"user": admin_user.pk, "name": "desk"}, follow=True)
    shown = page.content.decode().partition("it is shown only once: ")[2].split("<")[0].strip()
    row = ApiToken.objects.get()
    assert row.token_hash == tokens.hash_of(shown)
    assert shown not in client.get(f"/admin/station/apitoken/{row.pk}/change/").content.decode()
    assert tokens.user_of(shown) == admin_user


def test_playlists_are_created_filled_changed_and_deleted(house: Any, project: Any, make_member: Any) -> None:
    """P-01, S-01, S-02, S-07: all items or none; foreign objects are 404; every fault is explained."""
    caller = Caller(make_member(project, "operator"))
    own, foreign = house["own"], house["foreign"]
    assert caller.post("playlists/", {"name": "Evening", "project": "sport"}).status_code == 404
    made = caller.post("playlists/", {"name": "Evening", "project": project.slug, "is_loop": False})
    assert made.status_code == 201
    path = f"playlists/{made.json()['id']}"
    items = [{"asset": own["assets"].pk}, {"kind": "slate", "length_seconds": 5, "title": "Break"}]
    filled = caller.send("put", f"{path}/items", {"items": items})
    assert [each["title"] for each in filled.json()["items"]] == ["Clip own", "Break"]
    numbers = [each["id"] for each in filled.json()["items"]]
    again = caller.send("put", f"{path}/items", {"items": [{"kind": "slate", "length_seconds": 9}, *items]})
    assert [each["id"] for each in again.json()["items"]][1:] == numbers, (
        "what stays is the same row: a channel goes on"
    )
    assert [each["position"] for each in Playlist.objects.get(name="Evening").items.values("position")] == [0, 1, 2]
    assert caller.send("put", f"{path}/items", {"items": items}).status_code == 200
    for bad, status in ((foreign["assets"].pk, 404), (None, 422)):
        answer = caller.send("put", f"{path}/items", {"items": [*items, {"asset": bad}]})
        assert answer.status_code == status
    assert "item 3" in answer.json()["detail"]
    assert len(caller.get(path).json()["items"]) == 2, "nothing half-done"
    assert caller.send("patch", path, {"name": "Night"}).json()["name"] == "Night"
    assert caller.send("patch", path, {"on": "2026-11-17"}).status_code == 422
    for far in ("9999-12-31", "0001-01-01"):  # Python's dates end there
        answer = caller.send("patch", path, {"on": far, "channel": own["channels"].pk})
        assert (answer.status_code, "Give a day between" in answer.json()["detail"]) == (422, True)
        assert caller.get(f"channels/{own['channels'].pk}/as-run?day={far}").status_code == 422
    for odd in ("NaN", "Infinity", "-1", '"00:00:02:12"', '"0:30"'):
        body = f'{{"items": [{{"asset": {own["assets"].pk}, "in_seconds": {odd}}}]}}'
        assert caller.send("put", f"{path}/items", body).status_code in {400, 422}, odd
        body = f'{{"asset": {own["assets"].pk}, "in_seconds": {odd}}}'
        assert caller.post(f"channels/{own['channels'].pk}/insert", body).status_code in {400, 422}, odd
    assert caller.send("patch", path, {"channel": foreign["channels"].pk}).status_code == 404
    assert caller.send("delete", f"playlists/{own['playlists'].pk}").status_code == 409, "a channel plays it"
    assert caller.send("delete", path).status_code == 204
    assert not Playlist.objects.filter(name="Night").exists()
    assert AuditEntry.objects.filter(what="delete", who__endswith="(API)").exists()


def test_channels_are_set_up_only_by_engineers(house: Any, project: Any, make_member: Any) -> None:
    """P-01, S-01, S-05: an engineer, not an operator; the output's secret is sealed; a channel with history stays."""
    wanted = {"name": "Two", "project": project.slug, "playlist": house["own"]["playlists"].pk}
    wanted |= {"outputs": [{"type": "srt", "address": "srt://receiver.example:9000?passphrase=averysecretword"}]}
    assert Caller(make_member(project, "operator")).post("channels/", wanted).status_code == 404
    caller = Caller(make_member(project, "engineer"))
    made = caller.post("channels/", wanted)
    assert made.status_code == 201, made.content
    channel = Channel.objects.get(name="Two")
    [output] = channel.outputs.all()
    assert output.address == "srt://receiver.example:9000"
    assert output.secrets == {"passphrase": "averysecretword"}
    path = f"channels/{channel.pk}"
    assert caller.send("patch", path, {"picture": "1x1"}).status_code == 422
    bad = {"name": "Three", "outputs": [{"type": "srt", "address": "file:///etc/passwd"}]}
    assert caller.send("patch", path, bad).status_code == 422
    channel.refresh_from_db()
    assert (channel.name, channel.outputs.count()) == ("Two", 1), "nothing half-done"
    assert caller.send("patch", path, {"playlist": house["foreign"]["playlists"].pk}).status_code == 404
    channel.asrun.create(generation=1, seq=1, kind="asset", title="Clip", started_at=database_now())
    assert caller.send("delete", path).status_code == 409
    channel.asrun.all().delete()
    assert caller.send("delete", path).status_code == 204


def test_a_change_of_one_field_does_not_revert_others(
    house: Any, project: Any, make_member: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-01, S-02: a client renames a channel at the moment someone stops it; it stays stopped."""
    channel = house["own"]["channels"]
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True)
    really = Channel.full_clean

    def stopped_meanwhile(row: Channel, *args: Any, **kwargs: Any) -> None:
        Channel.objects.filter(pk=row.pk).update(is_wanted=False, state="stopping", filler=house["own"]["assets"])
        really(row, *args, **kwargs)

    monkeypatch.setattr(Channel, "full_clean", stopped_meanwhile)
    caller = Caller(make_member(project, "engineer"))
    assert caller.send("patch", f"channels/{channel.pk}", {"name": "Renamed"}).status_code == 200
    channel.refresh_from_db()
    assert (channel.name, channel.is_wanted, channel.state) == ("Renamed", False, "stopping")
    assert channel.filler == house["own"]["assets"]
    stale = Channel.objects.get(pk=channel.pk)
    Channel.objects.filter(pk=channel.pk).update(state="off_air")
    stale.save()  # as a form does
    assert Channel.objects.get(pk=channel.pk).state == "off_air"


def test_objects_in_use_are_not_deleted_and_the_audit_trail_does_not_say_so(
    house: Any, project: Any, make_member: Any
) -> None:
    """S-02, P-01: a channel with its own playlists, and a playlist that a channel plays."""
    channel = house["own"]["channels"]
    Playlist.objects.create(name="Today", project=project, channel=channel, on=database_now().date())
    caller = Caller(make_member(project, "engineer"))
    answer = caller.send("delete", f"channels/{channel.pk}")
    assert (answer.status_code, "lists of its own" in answer.json()["detail"]) == (409, True)
    answer = caller.send("delete", f"playlists/{house['own']['playlists'].pk}")
    assert (answer.status_code, "Channel own" in answer.json()["detail"]) == (409, True)
    assert not AuditEntry.objects.filter(what="delete").exists()


def test_an_ended_booking_cannot_be_extended(house: Any, project: Any, make_member: Any) -> None:
    """S-07: with an explanation, not as a server error."""
    now = database_now()
    row = Booking(recorder=house["own"]["recorders"], state="completed", starts_at=now - timedelta(hours=2))
    row.ends_at = row.closes_at = now - timedelta(hours=1)
    row.opens_at = row.starts_at
    row.save()
    answer = Caller(make_member(project, "operator")).post(f"bookings/{row.pk}/extend", {"minutes": 15})
    assert answer.status_code == 409
