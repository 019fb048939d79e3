"""Where an asset is used, and withdrawing or replacing it (A-08).

The users of assets are apps above this one, so they are found by name: ASSET_USERS lists objects with
`uses_of(asset_ids)`, which returns where each asset is used, and `replace(asset, other, by)`, which puts another asset
in its place and returns how often.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from assets.delivery.lifecycle import give_up
from assets.models import Asset, Delivery
from station.actions import Refusal


class NotPossible(Refusal):
    """The action is not possible; the text says why."""


@dataclass(frozen=True)
class Use:
    """One place where an asset is used."""

    asset_id: int
    what: str
    url: str = ""


class User(Protocol):
    """The interface of an entry of ASSET_USERS."""

    def uses_of(self, asset_ids: Iterable[int]) -> list[Use]: ...

    def replace(self, asset: Asset, other: Asset, *, by: str) -> int: ...


def _users() -> list[User]:
    return [import_string(path) for path in settings.ASSET_USERS]


def uses_of(asset_ids: Iterable[int]) -> dict[int, list[Use]]:
    """All uses of these assets, by asset."""
    wanted = list(asset_ids)
    found: dict[int, list[Use]] = {pk: [] for pk in wanted}
    for user in _users():
        for use in user.uses_of(wanted):
            found.setdefault(use.asset_id, []).append(use)
    return found


def withdraw(asset: Asset, *, reason: str, now: datetime, by: str, replacement: Asset | None = None) -> int:
    """Take an asset out of use. A replacement takes its place everywhere. Returns in how many places."""
    if replacement is not None:
        _check_replacement(asset, replacement)
    with transaction.atomic():
        changes = {"withdrawn_at": now, "withdrawn_by": by, "withdraw_reason": reason[:200]}
        if not Asset.objects.filter(pk=asset.pk, withdrawn_at=None).update(replacement=replacement, **changes):
            raise NotPossible(f"{asset} is already withdrawn.")
        asset.refresh_from_db()
        instead = f", replaced by {replacement}" if replacement else ""
        asset.remark(f"withdrawn: {reason}{instead}", now=now, by=by)
        replaced = sum(user.replace(asset, replacement, by=by) for user in _users()) if replacement else 0
    for delivery in asset.deliveries.exclude(state__in=Delivery.OVER):
        give_up(delivery, now=now, by=by, note="the asset was withdrawn")
    return replaced


def replace_everywhere(asset: Asset, replacement: Asset, *, now: datetime, by: str) -> int:
    """Put another asset in its place everywhere it is used. Returns in how many places."""
    _check_replacement(asset, replacement)
    with transaction.atomic():
        count = sum(user.replace(asset, replacement, by=by) for user in _users())
        Asset.objects.filter(pk=asset.pk).update(replacement=replacement)
        asset.remark(f"replaced by {replacement} in {count} places", now=now, by=by)
    return count


def restore(asset: Asset, *, now: datetime, by: str) -> None:
    """Allow a withdrawn asset to be used again. Replacements stay in place."""
    changes = {"withdrawn_at": None, "withdrawn_by": "", "withdraw_reason": "", "replacement": None}
    if not Asset.objects.filter(pk=asset.pk, withdrawn_at__isnull=False).update(**changes):
        raise NotPossible(f"{asset} is not withdrawn.")
    asset.refresh_from_db()
    asset.remark("can be used again", now=now, by=by)


def _check_replacement(asset: Asset, replacement: Asset) -> None:
    if replacement.pk == asset.pk:
        raise NotPossible("An asset cannot replace itself.")
    if replacement.project_id != asset.project_id:
        raise NotPossible(f"{replacement} belongs to another project.")
    if not replacement.is_usable:
        raise NotPossible(f"{replacement} cannot be used: it is {replacement.condition_word}.")
