"""Retention by age, count and free space; hold, trash, uses, withdraw and replace (A-07, A-08)."""

from datetime import timedelta
from typing import Any

import pytest

from assets.delivery import lifecycle
from assets.files import locations
from assets.library import retention, usage
from assets.library.usage import Use
from assets.models import Asset, Delivery, RetentionRule
from station.clock import database_now

pytestmark = pytest.mark.django_db

State = Asset.State


class Playlists:
    """A user of assets, like the playout app."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def uses_of(self, asset_ids: Any) -> list[Use]:
        return [Use(pk, name, "/admin/") for name, pk in self.used.items() if pk in set(asset_ids)]

    def replace(self, asset: Asset, other: Asset, *, by: str) -> int:
        names = [name for name, pk in self.used.items() if pk == asset.pk]
        self.used.update(dict.fromkeys(names, other.pk))
        return len(names)


playlists = Playlists()


@pytest.fixture(autouse=True)
def users(settings: Any) -> Playlists:
    settings.ASSET_USERS = ["assets.tests.test_retention.playlists"]
    playlists.used = {}
    return playlists


def rule(project: Any, **fields: Any) -> RetentionRule:
    made = RetentionRule(project=project, **fields)
    made.full_clean()
    made.save()
    return made


def trashed() -> list[str]:
    return list(Asset.objects.filter(trashed_at__isnull=False).order_by("title").values_list("title", flat=True))


def test_a_rule_trashes_assets_by_age(project: Any, old: list[Asset]) -> None:
    """A-07"""
    rule(project, max_age_days=7)
    assert retention.apply(database_now()) == {"trashed": 4, "purged": 0}
    assert trashed() == ["Day 0", "Day 1", "Day 2", "Day 3"]
    assert retention.apply(database_now())["trashed"] == 0


def test_a_rule_trashes_assets_by_count(project: Any, old: list[Asset]) -> None:
    """A-07: the newest stay."""
    rule(project, max_count=8)
    retention.apply(database_now())
    assert trashed() == ["Day 0", "Day 1"]


def test_a_rule_trashes_assets_by_free_space(project: Any, old: list[Asset], monkeypatch: Any) -> None:
    """A-07: the oldest, until they and the trash free enough space."""
    from collections import namedtuple

    usage_of = namedtuple("usage", "total used free")
    monkeypatch.setattr(retention.shutil, "disk_usage", lambda path: usage_of(100_000, 92_000, 8_000))
    rule(project, min_free_percent=10)
    retention.apply(database_now())
    assert trashed() == ["Day 0", "Day 1"]
    retention.apply(database_now())
    assert trashed() == ["Day 0", "Day 1"]


def test_a_disk_that_stays_nearly_full_empties_the_trash_early(
    project: Any, old: list[Asset], monkeypatch: Any
) -> None:
    """A-07: the oldest first; trashed by rules after an hour, by hand after a day; held assets stay."""
    from collections import namedtuple

    usage_of = namedtuple("usage", "total used free")
    monkeypatch.setattr(retention.shutil, "disk_usage", lambda path: usage_of(100_000, 92_000, 8_000))
    rule(project, min_free_percent=10)
    now = database_now()
    retention.trash(old[9], reason="by hand", now=now, by="anna")
    retention.apply(now)
    assert trashed() == ["Day 0", "Day 9"], "assets in the trash count as freed"
    retention.hold(Asset.objects.get(title="Day 0"), reason="rights", now=now, by="anna")
    retention.apply(now + timedelta(hours=2))
    assert trashed() == ["Day 0", "Day 1", "Day 9"], "a held asset in the trash does not count"
    assert not Asset.objects.filter(state=State.DELETED).exists()
    retention.apply(now + timedelta(hours=4))
    assert [asset.title for asset in Asset.objects.filter(state=State.DELETED)] == ["Day 1"]
    retention.apply(now + timedelta(hours=26))
    gone = Asset.objects.filter(state=State.DELETED).values_list("title", flat=True)
    assert "Day 9" in gone
    assert "Day 0" not in gone


def test_assets_on_another_disk_are_not_deleted_for_free_space_here(
    project: Any, old: list[Asset], monkeypatch: Any
) -> None:
    """A-07: deleting them would free nothing here."""
    from collections import namedtuple

    from assets.models import AssetPart
    from nodes.models import Node

    far = Node.objects.create(name="far", address="process", media_dir="/proc")  # another file system
    AssetPart.objects.filter(asset__in=old[:3]).update(node=far)
    usage_of = namedtuple("usage", "total used free")
    monkeypatch.setattr(retention.shutil, "disk_usage", lambda path: usage_of(100_000, 92_000, 8_000))
    rule(project, min_free_percent=10)
    retention.apply(database_now())
    assert trashed() == ["Day 3", "Day 4"]


def test_used_or_held_assets_are_never_deleted(project: Any, old: list[Asset], users: Playlists) -> None:
    """A-07."""
    rule(project, max_age_days=1)
    users.used = {"Tonight": old[0].pk}
    retention.hold(old[1], reason="court case", now=database_now(), by="anna")
    retention.apply(database_now())
    assert "Day 0" not in trashed()
    assert "Day 1" not in trashed()
    assert "Day 2" in trashed()
    retention.release(old[1], now=database_now(), by="anna")
    retention.apply(database_now())
    assert "Day 1" in trashed()


def test_an_asset_used_while_in_the_trash_is_not_deleted(project: Any, old: list[Asset], users: Playlists) -> None:
    """A-07: uses are checked again, under the row's lock, before a file is deleted."""
    retention.trash(old[0], reason="x", now=database_now(), by="anna", days=0)
    users.used = {"Tonight": old[0].pk}
    later = database_now() + timedelta(hours=1)
    assert retention.apply(later) == {"trashed": 0, "purged": 0}
    assert locations.path_of(old[0].parts.get()).exists()


def test_live_processing_and_undelivered_assets_are_not_deleted(
    project: Any, old: list[Asset], destination: Any
) -> None:
    """A-07"""
    rule(project, max_age_days=1)
    Asset.objects.filter(pk=old[0].pk).update(state=State.LIVE)
    Asset.objects.filter(pk=old[1].pk).update(state=State.PROCESSING)
    lifecycle.want(old[2], destination, now=database_now(), by="x")
    retention.apply(database_now())
    assert not {"Day 0", "Day 1", "Day 2"} & set(trashed())


def test_only_delivered_assets_are_deleted_if_the_rule_says_so(
    project: Any, old: list[Asset], destination: Any
) -> None:
    rule(project, max_age_days=1, only_delivered=True)
    lifecycle.want(old[0], destination, now=database_now(), by="x")
    Delivery.objects.update(state=Delivery.State.DELIVERED)
    retention.apply(database_now())
    assert trashed() == ["Day 0"]


def test_an_asset_in_the_trash_can_be_restored(project: Any, old: list[Asset]) -> None:
    """A-07"""
    retention.trash(old[0], reason="by mistake", now=database_now(), by="anna")
    retention.restore(old[0], now=database_now(), by="anna")
    assert trashed() == []
    with pytest.raises(retention.NotPossible):
        retention.restore(old[0], now=database_now(), by="anna")


def test_a_used_asset_cannot_be_deleted_by_hand(project: Any, old: list[Asset], users: Playlists) -> None:
    users.used = {"Tonight": old[0].pk}
    with pytest.raises(retention.NotPossible, match="used in Tonight"):
        retention.trash(old[0], reason="x", now=database_now(), by="anna")


def test_the_dry_run_lists_deletions_and_protected_assets_with_reasons(project: Any, old: list[Asset]) -> None:
    """A-07"""
    made = rule(project, max_age_days=9)
    retention.hold(old[0], reason="court case", now=database_now(), by="anna")
    verdicts = retention.judge(made, database_now(), ahead=timedelta(days=2))
    shown = {verdict.asset.title: (verdict.goes_now, verdict.kept_because) for verdict in verdicts}
    assert shown["Day 0"] == (False, "held by anna: court case")
    assert shown["Day 1"][0]
    assert {"Day 0", "Day 1", "Day 2"} <= set(shown) <= {"Day 0", "Day 1", "Day 2", "Day 3"}
    assert not Asset.objects.filter(trashed_at__isnull=False).exists()


def test_an_empty_rule_is_refused(project: Any) -> None:
    from django.core.exceptions import ValidationError

    with pytest.raises(ValidationError, match="Enter days kept, number kept, or free disk kept"):
        RetentionRule(project=project).full_clean()


# --- where used, withdraw, replace ---


def test_uses_are_listed(old: list[Asset], users: Playlists) -> None:
    """A-08"""
    users.used = {"Tonight": old[0].pk, "Tomorrow": old[0].pk, "Other": old[1].pk}
    assert [use.what for use in usage.uses_of([old[0].pk])[old[0].pk]] == ["Tonight", "Tomorrow"]


def test_an_asset_is_withdrawn_everywhere_and_replaced(old: list[Asset], users: Playlists, destination: Any) -> None:
    """A-08"""
    users.used = {"Tonight": old[0].pk, "Other": old[1].pk}
    lifecycle.want(old[0], destination, now=database_now(), by="x")
    count = usage.withdraw(old[0], reason="rights", replacement=old[2], now=database_now(), by="anna")
    assert count == 1
    assert users.used == {"Tonight": old[2].pk, "Other": old[1].pk}
    assert not old[0].is_usable
    assert Delivery.objects.get().state == Delivery.State.GIVEN_UP
    usage.restore(old[0], now=database_now(), by="anna")
    assert old[0].is_usable


def test_invalid_replacements_are_refused(old: list[Asset], project: Any) -> None:
    """A-08: not itself, not an asset of another project, not an unusable one."""
    from station.models import Project

    other = Project.objects.create(name="Sport", slug="sport")
    Asset.objects.filter(pk=old[1].pk).update(project=other)
    Asset.objects.filter(pk=old[2].pk).update(state=State.ERROR)
    for replacement in (old[0], Asset.objects.get(pk=old[1].pk), Asset.objects.get(pk=old[2].pk)):
        with pytest.raises(usage.NotPossible):
            usage.withdraw(old[0], reason="x", replacement=replacement, now=database_now(), by="anna")
    assert old[0].withdrawn_at is None


def test_an_asset_is_not_deleted_while_it_is_being_recorded(project: Any, old: list[Asset]) -> None:
    """A-07: not even a stale one."""
    from scheduling.models import Booking, Recorder

    now = database_now()
    recorder = Recorder.objects.create(name="Cam", project=project, source_type="test")
    hour = timedelta(hours=1)
    window = {"starts_at": now - hour, "opens_at": now - hour, "ends_at": now + hour, "closes_at": now + hour}
    booking = Booking.objects.create(recorder=recorder, state="recording", **window)
    Asset.objects.filter(pk=old[0].pk).update(state=State.ERROR, booking=booking)
    rule(project, max_age_days=1)
    retention.apply(now)
    assert "Day 0" not in trashed()
    assert "Day 1" in trashed()


def test_a_held_asset_does_not_count_as_free_space(project: Any, old: list[Asset], monkeypatch: Any) -> None:
    """A-07: it frees nothing, so the next one is deleted."""
    from collections import namedtuple

    usage_of = namedtuple("usage", "total used free")
    monkeypatch.setattr(retention.shutil, "disk_usage", lambda path: usage_of(100_000, 92_000, 9_000))
    retention.hold(old[0], reason="x", now=database_now(), by="anna")
    rule(project, min_free_percent=10)
    retention.apply(database_now())
    assert trashed() == ["Day 1"]
