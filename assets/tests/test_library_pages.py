"""The library's pages: their content, permissions and refusals."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from assets.delivery import lifecycle
from assets.files import locations
from assets.library import retention
from assets.models import Asset, AssetStep, Delivery, Destination, RetentionRule
from jobs.models import Run
from station.clock import database_now
from station.models import AuditEntry, Project

pytestmark = pytest.mark.django_db


def page_of(asset: Asset) -> str:
    return reverse("admin:assets_asset_change", args=[asset.pk])


def press(client: Client, row: Any, what: str, **form: Any) -> Any:
    """Press a button on a page: submitting its dialog is a POST."""
    name = row._meta.model_name
    url = f"/admin/assets/{name}/{row.pk}/{what}/"
    answer = client.post(url, {"_form_submitted": "on", **form})
    row.refresh_from_db()
    return answer


@pytest.fixture
def recorded(ready: Asset) -> Asset:
    """A recording of one minute with two parts and a gap, fully processed."""
    now = database_now()
    start = now - timedelta(minutes=5)
    gap = {
        "from_at": (start + timedelta(seconds=20)).isoformat(),
        "to_at": (start + timedelta(seconds=26)).isoformat(),
        "seconds": 6.0,
        "reason": "ffmpeg_died",
    }
    Asset.objects.filter(pk=ready.pk).update(
        state=Asset.State.PARTIAL,
        is_complete=False,
        wanted_from_at=start,
        wanted_until_at=start + timedelta(minutes=1),
        gaps=[gap],
        completeness_percent=90.0,
        duration_seconds=54.0,
        loudness_lufs=-22.9,
        loudness_range_lu=3.1,
        true_peak_dbtp=-4.0,
        findings=[{"kind": "black", "from_seconds": 3.0, "to_seconds": 5.0}],
        technical={
            "container": "mpegts",
            "pictures": [{"codec": "h264", "width": 320, "height": 180, "fps": 25.0, "is_interlaced": False}],
            "sounds": [{"codec": "aac", "sample_rate": 48000, "channels": 2, "layout": "stereo"}],
        },
        video_format="320x180p25",
    )
    part = ready.parts.get()
    part.first_frame_at, part.last_frame_at, part.seconds = start, start + timedelta(seconds=20), 20.0
    part.save()
    second = ready.parts.create(number=2, path="take/second.ts", seconds=34.0)
    second.first_frame_at, second.last_frame_at = start + timedelta(seconds=26), start + timedelta(minutes=1)
    second.save()
    ready.refresh_from_db()
    return ready


def test_the_page_shows_all_data_of_a_recording(operator: Client, recorded: Asset) -> None:
    """A-01, A-05: state, completeness, gap map, loudness, findings, technical data."""
    page = operator.get(page_of(recorded)).content.decode()
    for word in ["90.0 %", "ffmpeg_died", "-22.9 LUFS", "true peak -4.0 dBTP", "0:03.0 – 0:05.0: black", "320x180"]:
        assert word in page, word
    assert 'class="airlock-bar-gap" x="333.33"' in page
    assert 'class="airlock-bar-there" x="433.33"' in page
    assert page.count("airlock-bar-black") == 1


def test_the_list_shows_posters_and_finds_by_title(operator: Client, recorded: Asset) -> None:
    folder = locations.products_dir(recorded.pk)
    folder.mkdir(parents=True)
    (folder / "poster.jpg").write_bytes(b"x")
    page = operator.get(reverse("admin:assets_asset_changelist")).content.decode()
    assert f"/media/assets/{recorded.pk}/poster.jpg" in page
    found = operator.get(reverse("admin:assets_asset_changelist"), {"q": "clip"}).content.decode()
    assert "A clip" in found
    assert "A clip" not in operator.get(reverse("admin:assets_asset_changelist"), {"q": "nothing"}).content.decode()


def test_assets_of_another_project_are_not_found(stranger: Client, recorded: Asset, destination: Destination) -> None:
    """S-01: pages, buttons and lists."""
    lifecycle.want(recorded, destination, now=database_now(), by="x")
    delivery = Delivery.objects.get()
    assert stranger.get(page_of(recorded)).status_code == 404
    assert stranger.get(reverse("admin:assets_delivery_change", args=[delivery.pk])).status_code == 404
    for name in ("asset", "delivery", "destination", "import"):
        assert "A clip" not in stranger.get(reverse(f"admin:assets_{name}_changelist")).content.decode()
    for what in ("hold", "trash", "withdraw", "process", "deliver", "link"):
        assert press(stranger, recorded, what, reason="x").status_code in {403, 404}
    assert (recorded.held_at, recorded.trashed_at, recorded.withdrawn_at) == (None, None, None)


def test_a_viewer_can_see_but_not_act(project: Project, make_member: Any, recorded: Asset) -> None:
    """S-01"""
    client = Client()
    client.force_login(make_member(project, "viewer"))
    assert client.get(page_of(recorded)).status_code == 200
    for what in ("hold", "trash", "withdraw", "process", "deliver", "link"):
        assert press(client, recorded, what, reason="x").status_code == 403, what


def test_no_button_does_anything_on_get(operator: Client, recorded: Asset) -> None:
    """S-02"""
    for what in ("hold", "trash", "withdraw", "process", "link"):
        operator.get(f"/admin/assets/asset/{recorded.pk}/{what}/")
    recorded.refresh_from_db()
    assert (recorded.held_at, recorded.trashed_at, recorded.withdrawn_at) == (None, None, None)
    assert not Run.objects.exists()


def test_an_asset_can_be_held_released_trashed_and_restored(operator: Client, recorded: Asset) -> None:
    """A-07: each is recorded in the audit log."""
    press(operator, recorded, "hold", reason="court case")
    assert (recorded.held_by, recorded.hold_reason) == ("operator-news", "court case")
    press(operator, recorded, "trash", reason="x")
    assert recorded.trashed_at is None
    assert "held by operator-news" in operator.get(page_of(recorded)).content.decode()
    press(operator, recorded, "release")
    press(operator, recorded, "trash", reason="no longer needed")
    assert recorded.trashed_at is not None
    press(operator, recorded, "restore")
    assert recorded.trashed_at is None
    assert {"hold", "release", "trash", "restore"} <= set(AuditEntry.objects.values_list("what", flat=True))


def test_process_again_queues_the_chosen_steps(operator: Client, recorded: Asset) -> None:
    """A-05: the asset keeps its state meanwhile."""
    press(operator, recorded, "process", steps=["probe", "loudness"])
    assert set(recorded.steps.values_list("kind", flat=True)) == {"probe", "loudness"}
    assert recorded.state == Asset.State.PARTIAL


def test_an_asset_can_be_delivered_and_delivered_again(
    operator: Client, recorded: Asset, destination: Destination
) -> None:
    """A-03: "deliver again" action."""
    press(operator, recorded, "deliver", destination=destination.pk)
    delivery = Delivery.objects.get()
    assert delivery.state == Delivery.State.PENDING
    Delivery.objects.update(state=Delivery.State.GIVEN_UP, attempts=8, error="answered 500")
    page = operator.get(reverse("admin:assets_delivery_change", args=[delivery.pk])).content.decode()
    assert "answered 500" in page
    delivery.refresh_from_db()
    press(operator, delivery, "again")
    assert (delivery.state, delivery.attempts) == (Delivery.State.PENDING, 0)


def test_withdraw_with_a_replacement_of_the_same_project(operator: Client, recorded: Asset, project: Project) -> None:
    """A-08"""
    now = database_now()
    other = Asset.objects.create(project=project, title="Better", state="ready", origin="import", created_at=now)
    foreign = Asset.objects.create(
        project=Project.objects.create(name="Art", slug="art"),
        title="F",
        state="ready",
        origin="import",
        created_at=now,
    )
    press(operator, recorded, "withdraw", reason="rights", replacement=foreign.pk)
    assert recorded.withdrawn_at is None
    press(operator, recorded, "withdraw", reason="rights", replacement=other.pk)
    assert recorded.replacement == other
    assert "withdrawn" in operator.get(page_of(recorded)).content.decode()
    press(operator, recorded, "reinstate")
    assert recorded.withdrawn_at is None


def test_the_link_for_a_player_works(operator: Client, recorded: Asset) -> None:
    """A-09"""
    press(operator, recorded, "link")
    page = operator.get(page_of(recorded)).content.decode()
    link = page[page.index("/media/link/") :].partition("proxy.mp4")[0] + "proxy.mp4"
    folder = locations.products_dir(recorded.pk)
    folder.mkdir(parents=True)
    (folder / "proxy.mp4").write_bytes(b"moving")
    assert b"".join(Client().get(link).streaming_content) == b"moving"


def test_the_trash_is_shown_only_by_its_filter(operator: Client, recorded: Asset) -> None:
    retention.trash(recorded, reason="x", now=database_now(), by="anna")
    library = reverse("admin:assets_asset_changelist")
    assert "A clip" not in operator.get(library).content.decode()
    assert "A clip" in operator.get(library, {"where": "trash"}).content.decode()


def test_hostile_titles_are_escaped(operator: Client, recorded: Asset) -> None:
    """S-06"""
    hostile = "</title><script>alert(1)</script>'\"><img src=x onerror=alert(1)>"
    Asset.objects.filter(pk=recorded.pk).update(
        title=hostile, error=hostile, withdraw_reason=hostile, withdrawn_at=database_now()
    )
    for url in (page_of(recorded), reverse("admin:assets_asset_changelist") + "?where=withdrawn"):
        page = operator.get(url).content.decode()
        assert "<script>alert(1)" not in page
        assert "<img src=x" not in page


def test_the_secret_of_a_destination_is_never_shown(engineer: Client, project: Project) -> None:
    """S-05: write-only."""
    form = {
        "name": "MAM",
        "project": project.pk,
        "connector": "http",
        "config": '{"base_url": "https://mam.example", "media": "none"}',
        "secret": "very-secret-token",
        "is_active": "on",
    }
    answer = engineer.post(reverse("admin:assets_destination_add"), form)
    assert answer.status_code == 302, answer.content.decode()
    destination = Destination.objects.get()
    assert destination.secret == "very-secret-token"
    page = engineer.get(reverse("admin:assets_destination_change", args=[destination.pk])).content.decode()
    assert "very-secret-token" not in page
    engineer.post(
        reverse("admin:assets_destination_change", args=[destination.pk]), {**form, "secret": "", "name": "M2"}
    )
    destination.refresh_from_db()
    assert (destination.name, destination.secret) == ("M2", "very-secret-token")
    assert "very-secret-token" not in str(list(AuditEntry.objects.values()))


def test_a_bad_configuration_is_refused_beside_the_field(engineer: Client, project: Project) -> None:
    """S-07"""
    nul = r'{"base_url": "https://mam.example", "media": "none", "headers": {"X-A": "\u0000"}}'
    for config in ["{", "[]", '{"base_url": "ftp://x"}', '"text"', "null", nul]:
        form = {"name": "MAM", "project": project.pk, "connector": "http", "config": config, "secret": "s"}
        assert engineer.post(reverse("admin:assets_destination_add"), form).status_code == 200, config
    assert not Destination.objects.exists()


def test_upcoming_deletions_are_shown_in_advance(operator: Client, recorded: Asset, project: Project) -> None:
    """A-07: the dry-run view."""
    RetentionRule.objects.create(project=project, max_age_days=3)
    Asset.objects.filter(pk=recorded.pk).update(created_at=database_now() - timedelta(days=1))
    page = operator.get(reverse("what-goes")).content.decode()
    assert "Moving to the trash (1)" in page
    assert "older than 3 days" in page
    retention.hold(recorded, reason="archive", now=database_now(), by="anna")
    page = operator.get(reverse("what-goes")).content.decode()
    assert "Moving to the trash (0)" in page
    assert "held by anna: archive" in page


def test_upcoming_deletions_show_only_visible_assets(stranger: Client, recorded: Asset, project: Project) -> None:
    """S-01"""
    RetentionRule.objects.create(project=project, max_age_days=1)
    Asset.objects.filter(pk=recorded.pk).update(created_at=database_now() - timedelta(days=5))
    assert "A clip" not in stranger.get(reverse("what-goes")).content.decode()


def test_a_running_step_shows_its_progress(operator: Client, recorded: Asset) -> None:
    from assets.processing import steps

    steps.order(recorded, [AssetStep.Kind.PROXY], now=database_now(), by="x")
    Run.objects.update(state=Run.State.RUNNING, progress_percent=42, progress_text="encoding")
    assert "42 % encoding" in operator.get(page_of(recorded)).content.decode()
