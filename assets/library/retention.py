"""Which assets are deleted, when and why: rules per project, hold, trash, and a preview (A-07).

An asset that is used, held, live, being processed or being delivered is never deleted. Others go to the trash first and
can be restored from there; their files are deleted when their time in the trash is over. The row stays, with its
history.
"""

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q, QuerySet, prefetch_related_objects

from assets.files.locations import root_of
from assets.library.file_deletion import delete_files
from assets.library.usage import Use, uses_of
from assets.models import Asset, Delivery, RetentionRule
from jobs.runs.queue import cancel_of
from station.actions import Refusal
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

State = Asset.State
DEFAULT_TRASH = timedelta(days=7)
# When the disk is nearly full, the trash is emptied early: after this time for assets trashed by rules, and by hand.
LEAST_TRASH, LEAST_TRASH_BY_HAND = timedelta(hours=1), timedelta(days=1)
# When disk space is lacking, so many of the oldest assets are read at a time.
AT_A_TIME = 100


class NotPossible(Refusal):
    """The action is not possible; the text says why."""


@dataclass(frozen=True)
class Verdict:
    """A rule's decision about one asset: when it goes to the trash and why, and what keeps it."""

    asset: Asset
    goes_at: datetime | None
    reason: str
    kept_because: str = ""

    @property
    def goes_now(self) -> bool:
        return self.goes_at is not None and not self.kept_because


def judge(rule: RetentionRule, now: datetime, *, ahead: timedelta = timedelta(0)) -> list[Verdict]:
    """Assets that the rule deletes by `now + ahead`, oldest first, and those that are due but protected.

    Only those are read from the database.
    """
    due: dict[int, tuple[Asset, datetime, str]] = {}
    for asset, moment, reason in _candidates(rule, now, now + ahead):
        if asset.pk not in due or moment < due[asset.pk][1]:
            due[asset.pk] = (asset, moment, reason)
    uses = uses_of(due)
    verdicts = [
        Verdict(asset, moment, reason, why_kept(asset, uses.get(pk, []), rule))
        for pk, (asset, moment, reason) in due.items()
    ]
    return sorted(verdicts, key=lambda verdict: (verdict.goes_at or now, verdict.asset.pk))


def _candidates(rule: RetentionRule, now: datetime, until: datetime) -> Iterator[tuple[Asset, datetime, str]]:
    """Assets selected by age, by count and by free space, each with the time it is due."""
    retained = Asset.objects.retained(rule.project_id)
    assets = retained.order_by("created_at", "id").select_related("booking")
    assets = assets.prefetch_related("deliveries__destination").defer("technical", "findings", "gaps")
    if rule.max_age_days:
        age = timedelta(days=rule.max_age_days)
        for asset in assets.filter(created_at__lte=until - age):
            yield asset, asset.created_at + age, f"older than {rule.max_age_days} days"
    if rule.max_count:
        newest = retained.order_by("-created_at", "-id")[rule.max_count - 1 : rule.max_count]
        for created_at, pk in newest.values_list("created_at", "pk"):  # the oldest that stays, if there are as many
            older = Q(created_at__lt=created_at) | Q(created_at=created_at, pk__lt=pk)
            for asset in assets.filter(older, created_at__lte=created_at):
                yield asset, now, f"more than {rule.max_count} in the project"
    if rule.min_free_percent:
        yield from _for_room(rule, assets, now)


def _for_room(rule: RetentionRule, assets: QuerySet[Asset], now: datetime) -> Iterator[tuple[Asset, datetime, str]]:
    """The oldest assets, until they and the trash free enough space.

    Only files on that disk count: deleting a recording on another node's disk frees nothing here.
    """
    lacking = _lacking_bytes(rule)
    if lacking <= 0:
        return
    trashed = list(_in_trash())
    uses, here = uses_of(asset.pk for asset in trashed), _bytes_here(trashed)
    lacking -= sum(here[asset.pk] for asset in trashed if not why_kept(asset, uses[asset.pk]))
    step = Q()
    while lacking > 0 and (oldest := list(assets.filter(step)[:AT_A_TIME])):
        uses, here = uses_of(asset.pk for asset in oldest), _bytes_here(oldest)
        for asset in oldest:
            if lacking <= 0:
                return
            if not here[asset.pk] or why_kept(asset, uses[asset.pk], rule):
                continue  # it frees no space
            lacking -= here[asset.pk]
            yield asset, now, f"less than {rule.min_free_percent} % of the disk is free"
        last = oldest[-1]
        step = Q(created_at__gte=last.created_at) & ~Q(created_at=last.created_at, pk__lte=last.pk)


def _lacking_bytes(rule: RetentionRule) -> int:
    """How much free space is lacking by the rule; 0 if it cannot be measured."""
    try:
        disk = shutil.disk_usage(settings.RECORDINGS_DIR)
    except OSError:
        return 0
    return disk.total * (rule.min_free_percent or 0) // 100 - disk.free


def _in_trash() -> QuerySet[Asset]:
    return Asset.objects.filter(trashed_at__isnull=False).exclude(state=State.DELETED).prefetch_related("deliveries")


def _make_room(rule: RetentionRule, now: datetime) -> int:
    """The disk is nearly full: delete the oldest assets in the trash early."""
    lacking = _lacking_bytes(rule)
    if not rule.min_free_percent or lacking <= 0:
        return 0
    waiting = list(_in_trash().filter(project=rule.project_id).order_by("trashed_at"))
    here, count = _bytes_here(waiting), 0
    for asset in waiting:
        least = LEAST_TRASH if asset.trashed_by == SCHEDULER else LEAST_TRASH_BY_HAND
        if lacking <= 0 or not here[asset.pk] or asset.trashed_at is None or now - asset.trashed_at < least:
            continue
        if _alone(asset, partial(purge, asset, now=now, by=SCHEDULER, note="the disk is nearly full")):
            lacking -= here[asset.pk]
            count += 1
    return count


def _bytes_here(assets: list[Asset]) -> dict[int, int]:
    """Bytes that each asset has on the disk of RECORDINGS_DIR."""
    prefetch_related_objects(assets, "parts__node")
    device = _device_of(Path(settings.RECORDINGS_DIR))
    roots = {root_of(part) for asset in assets for part in asset.parts.all()}
    near = {root for root in roots if _device_of(root) == device}
    return {asset.pk: sum(part.size_bytes for part in asset.parts.all() if root_of(part) in near) for asset in assets}


def _device_of(root: Path) -> int | None:
    try:
        return root.stat().st_dev
    except OSError:
        return None


def why_kept(asset: Asset, uses: list[Use], rule: RetentionRule | None = None) -> str:
    """The reason that protects the asset, as shown to staff; empty if nothing does."""
    if asset.held_at:
        return f"held by {asset.held_by}" + (f": {asset.hold_reason}" if asset.hold_reason else "")
    if uses:
        return "used in " + ", ".join(use.what for use in uses[:3]) + (" and more" if len(uses) > 3 else "")
    if asset.state in Asset.live_states():
        return f"it is {asset.state_word}"
    if asset.is_being_recorded:
        return "its recording is still running"
    deliveries = list(asset.deliveries.all())
    if any(
        delivery.state in {Delivery.State.PENDING, Delivery.State.SENDING, Delivery.State.FAILED}
        for delivery in deliveries
    ):
        return "it is being delivered"
    if rule is not None and rule.only_delivered:
        got = {delivery.destination_id for delivery in deliveries if delivery.state == Delivery.State.DELIVERED}
        wanted = {each.pk for each in rule.automatic_destinations if each.takes_partial or asset.state != State.PARTIAL}
        if not got or wanted - got:
            return "not delivered yet"
    return ""


def apply(now: datetime, on_each: Callable[[], None] = lambda: None) -> dict[str, int]:
    """Move assets to the trash by the rules, and delete those whose time in the trash is over."""
    trashed = purged = 0
    for rule in RetentionRule.objects.filter(is_active=True).select_related("project"):
        for verdict in judge(rule, now):
            on_each()
            if verdict.goes_now and _alone(verdict.asset, partial(_let_go, verdict, rule, now)):
                trashed += 1
        purged += _make_room(rule, now)
    for asset in Asset.objects.to_purge(now).order_by("purge_at"):
        on_each()
        purged += bool(_alone(asset, partial(purge, asset, now=now, by=SCHEDULER)))
    for asset in Asset.objects.filter(state=State.DELETED, files_gone_at=None):  # a crash or a missing mount left files
        on_each()
        _alone(asset, partial(delete_files, asset, now))
    return {"trashed": trashed, "purged": purged}


def _let_go(verdict: Verdict, rule: RetentionRule, now: datetime) -> bool:
    trash(verdict.asset, reason=verdict.reason, now=now, by=SCHEDULER, days=rule.trash_days, rule=rule)
    return True


def _alone(asset: Asset, act: Callable[[], bool]) -> bool:
    try:
        return act()
    except (OperationalError, InterfaceError):
        raise
    except NotPossible as fault:
        logger.info("An asset is kept. asset=%s why=%s", asset.pk, fault)
    except Exception:  # one failing asset does not hold up the others
        logger.exception("An asset could not be deleted. asset=%s", asset.pk)
    return False


def trash(
    asset: Asset,
    *,
    reason: str,
    now: datetime,
    by: str,
    days: int | None = None,
    rule: RetentionRule | None = None,
) -> None:
    """Move an asset to the trash. Raises NotPossible if it is protected."""
    with transaction.atomic():
        asset = Asset.objects.select_for_update().get(pk=asset.pk)
        if asset.trashed_at or asset.state == State.DELETED:
            raise NotPossible("The asset is already in the trash.")
        kept = why_kept(asset, uses_of([asset.pk])[asset.pk], rule)
        if kept:
            raise NotPossible(f"The asset is protected: {kept}.")
        until = now + (DEFAULT_TRASH if days is None else timedelta(days=days))
        Asset.objects.filter(pk=asset.pk).update(
            trashed_at=now, trashed_by=by, trash_reason=reason[:200], purge_at=until
        )
        asset.remark(f"moved to the trash: {reason}", now=now, by=by)


def restore(asset: Asset, *, now: datetime, by: str) -> None:
    """Take an asset out of the trash."""
    with transaction.atomic():
        asset = Asset.objects.select_for_update().get(pk=asset.pk)
        if asset.state == State.DELETED:
            raise NotPossible("The asset's files were deleted.")
        if not asset.trashed_at:
            raise NotPossible("The asset is not in the trash.")
        Asset.objects.filter(pk=asset.pk).update(trashed_at=None, trashed_by="", trash_reason="", purge_at=None)
        asset.remark("restored from the trash", now=now, by=by)


def hold(asset: Asset, *, reason: str, now: datetime, by: str) -> None:
    """Protect an asset from every rule."""
    if (
        not Asset.objects.filter(pk=asset.pk, held_at=None)
        .exclude(state=State.DELETED)
        .update(held_at=now, held_by=by, hold_reason=reason[:200])
    ):
        raise NotPossible("The asset is already held, or was deleted.")
    asset.remark(f"held: {reason}" if reason else "held", now=now, by=by)


def release(asset: Asset, *, now: datetime, by: str) -> None:
    if not Asset.objects.filter(pk=asset.pk, held_at__isnull=False).update(held_at=None, held_by="", hold_reason=""):
        raise NotPossible("The asset is not held.")
    asset.remark("released", now=now, by=by)


def purge(asset: Asset, *, now: datetime, by: str, note: str = "its time in the trash is over") -> bool:
    """Delete the asset's files. The row is marked first, under its lock, so that no playlist can start to use it."""
    with transaction.atomic():
        asset = Asset.objects.select_for_update().get(pk=asset.pk)
        if asset.trashed_at is None or asset.state == State.DELETED:
            return False
        kept = why_kept(asset, uses_of([asset.pk])[asset.pk])
        if kept:
            raise NotPossible(f"The asset is protected: {kept}.")
        cancel_of(asset.owner, by=by, reason="the asset is deleted")
        size = asset.size_bytes
        if not asset.move(State.DELETED, now=now, by=by, note=note):
            return False
    delete_files(asset, now)
    logger.info("An asset is deleted. asset=%s bytes=%s", asset.pk, size)
    return True
