"""Staff actions on assets: process, deliver, hold, release, withdraw, replace, reinstate, trash, restore."""

from collections.abc import Sequence
from datetime import datetime

from assets.delivery import lifecycle
from assets.library import retention, usage
from assets.models import Asset, AssetStep, Destination
from assets.processing import steps as processing
from station.actions import Outcome, action, done, nothing

OPERATE = "assets.operate_asset"
State = Asset.State
EVERY_STEP = tuple(str(kind) for kind in AssetStep.Kind)


def _is_there(asset: Asset) -> bool:
    return asset.state != State.DELETED


def _is_busy(asset: Asset) -> bool:
    """In the trash, or its recording is still running."""
    return asset.is_trashed or asset.is_being_recorded


def _is_processable(asset: Asset) -> bool:
    return asset.state in {*Asset.FINISHED, State.ERROR} and not _is_busy(asset)


def _why_not(asset: Asset) -> str:
    """The reason for a refusal if the asset must be finished and in the library."""
    if _is_there(asset) and _is_busy(asset):
        return "in the trash" if asset.is_trashed else "still being recorded"
    return asset.state_word


@action("process", "Process again", permission=OPERATE, when=_is_processable, otherwise=_why_not)
def process(asset: Asset, *, now: datetime, by: str, steps: Sequence[str] = EVERY_STEP) -> Outcome:
    count = processing.again(asset, processing.fitting(asset, steps), now=now, by=by)
    if not count:
        reason = "the chosen steps are already running, or do not apply"
        return nothing(f"{asset}: {reason}.", reason=reason)
    return done(f"{asset}: {count} steps are queued.", details={"steps": count})


@action(
    "deliver",
    "Deliver",
    permission=OPERATE,
    when=lambda asset: asset.is_usable,
    otherwise=lambda asset: asset.condition_word,
)
def deliver(asset: Asset, *, now: datetime, by: str, destination: Destination) -> Outcome:
    """Deliver to one destination, again if it was delivered there before."""
    details = {"destination": str(destination)}
    if lifecycle.want(asset, destination, now=now, by=by):
        return done(f"Delivery of {asset} to {destination} is queued.", details=details)
    if lifecycle.again(asset.deliveries.get(destination=destination), now=now, by=by):
        return done(f"Delivery of {asset} to {destination} is queued again.", details=details)
    return nothing(f"Delivery of {asset} to {destination} is already queued.")


@action(
    "hold",
    "Hold",
    permission=OPERATE,
    when=lambda asset: asset.held_at is None and _is_there(asset),
    otherwise=lambda asset: "already held" if _is_there(asset) else asset.state_word,
)
def hold(asset: Asset, *, now: datetime, by: str, reason: str = "") -> Outcome:
    retention.hold(asset, reason=reason, now=now, by=by)
    return done(f"{asset} is held.", details={"reason": reason})


@action("release", "Release", permission=OPERATE, when=lambda asset: asset.held_at is not None, otherwise="not held")
def release(asset: Asset, *, now: datetime, by: str) -> Outcome:
    retention.release(asset, now=now, by=by)
    return done(f"{asset} is released.")


@action(
    "withdraw",
    "Withdraw",
    permission=OPERATE,
    when=lambda asset: not asset.withdrawn_at and _is_there(asset),
    otherwise=lambda asset: "already withdrawn" if _is_there(asset) else asset.state_word,
)
def withdraw(asset: Asset, *, now: datetime, by: str, reason: str, replacement: Asset | None = None) -> Outcome:
    count = usage.withdraw(asset, reason=reason, replacement=replacement, now=now, by=by)
    instead = f" {replacement} replaces it in {count} places." if count else ""
    return done(f"{asset} is withdrawn.{instead}", details={"reason": reason, "replaced": count})


@action("replace", "Replace", permission=OPERATE, when=_is_there)
def replace(asset: Asset, *, now: datetime, by: str, replacement: Asset) -> Outcome:
    count = usage.replace_everywhere(asset, replacement, now=now, by=by)
    return done(f"{replacement} replaces {asset} in {count} places.", details={"replaced": count})


@action(
    "reinstate",
    "Use again",
    permission=OPERATE,
    when=lambda asset: asset.withdrawn_at is not None and _is_there(asset),
    otherwise=lambda asset: "not withdrawn" if _is_there(asset) else asset.state_word,
)
def reinstate(asset: Asset, *, now: datetime, by: str) -> Outcome:
    usage.restore(asset, now=now, by=by)
    return done(f"{asset} can be used again.")


@action(
    "trash",
    "Move to trash",
    permission=OPERATE,
    when=lambda asset: asset.is_over and not _is_busy(asset) and _is_there(asset),
    otherwise=_why_not,
)
def trash(asset: Asset, *, now: datetime, by: str, reason: str = "") -> Outcome:
    retention.trash(asset, reason=reason or f"deleted by {by}", now=now, by=by)
    return done(f"{asset} is in the trash.", details={"reason": reason})


@action(
    "restore",
    "Restore",
    permission=OPERATE,
    when=lambda asset: asset.is_trashed and _is_there(asset),
    otherwise=lambda asset: "not in the trash" if _is_there(asset) else asset.state_word,
)
def restore(asset: Asset, *, now: datetime, by: str) -> Outcome:
    retention.restore(asset, now=now, by=by)
    return done(f"{asset} is restored.")
