"""Delivery over HTTP: addresses, signatures, secrets, configuration and keys (A-03, S-09)."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from assets.delivery import lifecycle
from assets.models import Asset, Delivery, Destination
from assets.tests.test_delivery_lifecycle import attempt, deliver
from jobs.models import Run
from station.clock import database_now
from testing.mam import Mam

pytestmark = pytest.mark.django_db

State = Delivery.State


def test_this_machine_is_refused_as_a_target_unless_allowed(
    ready: Asset, destination: Destination, mam: Mam, settings: Any
) -> None:
    """S-09"""
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    delivery = deliver(ready, destination)
    assert delivery.state == State.FAILED
    assert "not allowed" in delivery.error
    assert not mam.calls


def test_requests_are_signed_if_the_destination_uses_hmac(ready: Asset, destination: Destination, mam: Mam) -> None:
    destination.config = {**destination.config, "auth": "hmac"}
    destination.save()
    deliver(ready, destination)
    for call in mam.calls:
        digest = hashlib.sha256(call.body).hexdigest() if call.method == "POST" else "ab" * 32
        if call.method == "PUT":
            digest = call.headers["X-Content-SHA256"]
        text = f"{call.headers['X-Airlock-Timestamp']}\n{call.method}\n/api{call.path}\n{digest}"
        expected = hmac.new(b"token-of-the-mam", text.encode(), hashlib.sha256).hexdigest()
        assert call.headers["X-Airlock-Signature"] == f"sha256={expected}"
        assert "Authorization" not in call.headers


def test_by_reference_only_the_addresses_are_sent(ready: Asset, destination: Destination, mam: Mam) -> None:
    config = {"base_url": mam.url, "media": "reference", "reference_base": "https://files.example/media/"}
    Destination.objects.filter(pk=destination.pk).update(config=config)
    destination.refresh_from_db()
    deliver(ready, destination)
    assert len(mam.calls) == 1
    assert mam.calls[0].content["files"][0]["url"] == "https://files.example/media/take/clip.ts"


def test_the_secret_stays_out_of_errors(ready: Asset, destination: Destination, mam: Mam) -> None:
    """S-05"""
    mam.moods = ["500"]
    delivery = deliver(ready, destination)
    stored = json.dumps(
        [delivery.error, *delivery.log.values_list("text", flat=True), *Run.objects.values_list("error", flat=True)]
    )
    assert "token-of-the-mam" not in stored
    assert "token-of-the-mam" not in json.dumps(Destination.objects.values().get(), default=str)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"base_url": "ftp://x"}, "base_url"),
        ({"base_url": "https://mam.example", "media": "carrier pigeon"}, "media must be none"),
        ({"base_url": "https://mam.example", "media": "reference"}, "reference_base"),
        ({"base_url": "https://mam.example", "media": "none", "colour": 1}, "colour is unknown"),
        ({"base_url": "https://mam.example", "media": "none", "update_path": "/x"}, "{id}"),
        ({"base_url": "https://mam.example", "media": "none", "fields": {"nonsense": "x"}}, "nonsense"),
        ({"base_url": "https://mam.example", "media": "none", "headers": {"X\nY": "1"}}, "cannot be sent"),
        ({"base_url": "https://mam.example", "auth": []}, "auth must be a text"),
        ({"base_url": "https://mam.example", "fields": []}, "fields must be an object"),
        ({"base_url": "https://mam.example", "media": "none", "fields": {"title": 1}}, "every value must be a name"),
        (
            {"base_url": "https://mam.example", "media": "none", "extra": {"a": "x"}, "fields": {"title": "a.b"}},
            "extra conflicts with fields",
        ),
        ([], "object"),
        ("text", "object"),
    ],
)
def test_an_invalid_configuration_is_refused_with_the_reason(project: Any, config: Any, word: str) -> None:
    """S-07"""
    destination = Destination(name="x", project=project, connector="http", config=config)
    destination.set_secret("s")
    with pytest.raises(ValidationError) as fault:
        destination.full_clean()
    assert word in str(fault.value)


def test_a_destination_that_uses_a_secret_needs_one(project: Any) -> None:
    destination = Destination(name="x", project=project, config={"base_url": "https://mam.example", "media": "none"})
    with pytest.raises(ValidationError, match="needs a secret"):
        destination.full_clean()


def test_a_token_repeated_by_the_mam_is_not_stored(
    ready: Asset, destination: Destination, mam: Mam, monkeypatch: Any
) -> None:
    """S-05"""
    from testing import mam as testing_mam

    def echo(self: Any, path: str, body: bytes) -> tuple[int, Any]:
        return 401, {"error": f"unknown token {self.headers['Authorization']} token-of-the-mam"}

    monkeypatch.setattr(testing_mam.Handler, "_do", echo)
    delivery = deliver(ready, destination)
    stored = json.dumps(
        [delivery.error, *delivery.log.values_list("text", flat=True), *Run.objects.values_list("error", flat=True)]
    )
    assert "401" in stored
    assert "token-of-the-mam" not in stored


def test_every_request_has_its_own_idempotency_key(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03: a gateway that honours keys must not replay the response to the create."""
    delivery = deliver(ready, destination)
    lifecycle.again(delivery, now=database_now(), by="anna")
    attempt()
    keys = [call.headers["Idempotency-Key"] for call in mam.calls]
    assert len(set(keys)) == len(keys) == 4


def test_an_asset_deleted_in_the_mam_is_created_again(ready: Asset, destination: Destination, mam: Mam) -> None:
    """A-03: a gateway may return 404 too, so it counts only when repeated."""
    delivery = deliver(ready, destination)
    number = delivery.external_id
    mam.assets.clear()
    lifecycle.again(delivery, now=database_now(), by="anna")
    for known in (number, number, ""):
        attempt()
        delivery.refresh_from_db()
        assert (delivery.state, delivery.external_id) == (State.FAILED, known)
    attempt()
    delivery.refresh_from_db()
    assert delivery.state == State.DELIVERED
    assert len(mam.assets) == 1
