"""One attempt of a delivery, in a job worker: sends the asset to its destination and writes the result.

The result is written only while the run still holds its lease, so that a job worker that was frozen changes nothing.
"""

import logging
import uuid
from datetime import datetime
from typing import Any

from django.db import transaction

from assets.delivery import connectors
from assets.delivery.connectors.parcel import Forgotten, NotDelivered, Parcel, PartFile
from assets.delivery.lifecycle import DeliveryOrder, fail, log_attempt
from assets.files.locations import FileGone, path_of
from assets.models import Delivery
from jobs.definitions.run_context import Hopeless, RunContext, RunStopped
from jobs.models import Run
from station.alerts import resolve_alert
from station.clock import database_now
from station.redaction import redact
from station.sealing import CannotOpen

logger = logging.getLogger(__name__)

State = Delivery.State


def deliver(run: RunContext, order: DeliveryOrder) -> dict[str, Any]:
    """The handler: send the asset and write the result, both only while the delivery belongs to this run."""
    delivery = (
        Delivery.objects.select_related("asset__project", "destination")
        .filter(pk=order.delivery_id, state=State.SENDING, run_ref=run.id)
        .first()
    )
    if delivery is None:
        raise Hopeless("The delivery no longer belongs to this run.")
    try:
        number = connectors.send(
            delivery.destination.connector,
            parcel_of(delivery, run),
            delivery.destination.config,
            delivery.destination.secret,
            lambda number: _note_number(run, delivery, external_id=number),
        )
    except (NotDelivered, FileGone, CannotOpen) as fault:
        text = redact(str(fault), *_secret_words(delivery))
        if isinstance(fault, Forgotten):
            _note_number(run, delivery, external_id="", key=uuid.uuid4())
        conclude(run, delivery, error=text)
        raise Hopeless(text) from fault  # the delivery does its own retries
    conclude(run, delivery, external_id=number)
    return {"external_id": number}


def _secret_words(delivery: Delivery) -> list[str]:
    """Secrets to remove from an error text, in case the MAM repeats them."""
    try:
        secret = delivery.destination.secret
    except CannotOpen:
        return []
    return [secret] if secret else []


def parcel_of(delivery: Delivery, run: RunContext) -> Parcel:
    """Everything that is sent to the MAM."""
    asset = delivery.asset
    parts = list(asset.parts.filter(is_readable=True).select_related("node"))
    if not parts:
        raise NotDelivered("There is no readable file to deliver. Process the asset again.")
    files = [PartFile(path_of(part), part.number, part.sha256) for part in parts]
    facts = {
        "title": asset.title,
        "project": asset.project.name if asset.project else "",
        "asset_id": asset.pk,
        "state": asset.state,
        "starts_at": _iso(asset.wanted_from_at),
        "ends_at": _iso(asset.wanted_until_at),
        "duration_seconds": asset.duration_seconds,
        "completeness_percent": asset.completeness_percent,
        "video_format": asset.video_format,
        "audio_format": asset.audio_format,
        "timecode": asset.timecode,
        "sha256": asset.sha256,
        "size_bytes": asset.size_bytes,
        "loudness_lufs": asset.loudness_lufs,
        "gaps": asset.gaps,
        "files": [
            {"number": part.number, "path": part.path, "size_bytes": part.size_bytes, "sha256": part.sha256}
            for part in parts
        ],
    }
    return Parcel(
        key=str(delivery.key),
        # The same for all attempts of one round; "Deliver again" starts a new round.
        round=delivery.rounds,
        asset_id=asset.pk,
        external_id=delivery.external_id,
        attempt=delivery.attempts,
        facts=facts,
        files=files,
        on_percent=lambda percent: run.report(percent, "sending"),
    )


def _note_number(run: RunContext, delivery: Delivery, **changes: Any) -> None:
    """Write only while the delivery belongs to this run: a frozen job worker must not overwrite its successor."""
    Delivery.objects.filter(pk=delivery.pk, state=State.SENDING, run_ref=run.id).update(**changes)


def conclude(run: RunContext, delivery: Delivery, *, error: str = "", external_id: str = "") -> None:
    """Write the end of this attempt. Raises RunStopped if the run is no longer ours."""
    now = database_now()
    with transaction.atomic():
        mine = Run.objects.select_for_update().filter(pk=run.id, token=run.token, state=Run.State.RUNNING)
        if not mine.exists():
            raise RunStopped
        if error:
            fail(delivery, error, now)
        else:
            _succeed(delivery, external_id, now)


def _succeed(delivery: Delivery, external_id: str, now: datetime) -> None:
    moved = delivery.move(
        State.DELIVERED,
        now=now,
        note=f"as {external_id}",
        external_id=external_id,
        delivered_at=now,
        next_attempt_at=None,
        error="",
    )
    if moved:
        log_attempt(delivery, now, is_good=True, text=f"delivered as {external_id}")
        resolve_alert(f"given_up:{delivery.owner}", now=now, note="delivered")
        logger.info("An asset is delivered. delivery=%s asset=%s as=%s", delivery.pk, delivery.asset_id, external_id)


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
