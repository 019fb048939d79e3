"""Secrets are encrypted in the database and removed from logs (S-05)."""

import logging

import pytest
from cryptography.fernet import Fernet
from django.test import override_settings

from station.redaction import RedactingFilter, redact
from station.sealing import CannotOpen, seal, unseal

SECRET = {"passphrase": "open sesame", "stream_key": "live_123"}


def test_a_sealed_secret_can_be_opened_and_is_not_readable() -> None:
    sealed = seal(SECRET)
    assert "sesame" not in sealed
    assert unseal(sealed) == SECRET
    assert seal({}) == ""
    assert unseal("") == {}


def test_keys_can_be_rotated_and_a_lost_key_raises() -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    with override_settings(SEALING_KEYS=[old]):
        sealed = seal(SECRET)
    with override_settings(SEALING_KEYS=[new, old]):
        assert unseal(sealed) == SECRET
    with override_settings(SEALING_KEYS=[new]), pytest.raises(CannotOpen):
        unseal(sealed)


@pytest.mark.parametrize(
    "line",
    [
        "Error opening srt://10.0.0.1:9000?mode=caller&passphrase=TOPSECRET&latency=100",
        "rtmp://server.example/live/TOPSECRET: Connection refused",
        "rtsp://user:TOPSECRET@camera.example/stream: 401",
        "https://cdn.example/a.m3u8?token=TOPSECRET",
        "Authorization: Bearer TOPSECRET",
        "{'url': 'rtmps://x.example/app/TOPSECRET'}",
    ],
)
def test_addresses_lose_their_secrets(line: str) -> None:
    assert "TOPSECRET" not in redact(line)
    assert redact(line) != line


def test_known_secrets_are_removed_anywhere_in_the_text() -> None:
    assert redact("the word is xyzzy", "xyzzy") == "the word is ***"


def test_logs_are_redacted_with_their_traceback() -> None:
    try:
        raise ValueError("srt://h:1?passphrase=TOPSECRET")
    except ValueError:
        record = logging.getLogger("x").makeRecord(
            "x", logging.ERROR, "f", 1, "failed for %s", ("rtmp://h/a/TOPSECRET",), __import__("sys").exc_info()
        )
    assert RedactingFilter().filter(record)
    assert "TOPSECRET" not in record.getMessage()
    assert "TOPSECRET" not in (record.exc_text or "")
