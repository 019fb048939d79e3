"""Outbound calls never reach this machine, however the address is written (S-09)."""

import socket
from typing import Any

import pytest

from station.outbound import OutboundError, _address_of


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fe80::1",
        "0.0.0.0",
        "fd00:ec2::254",
    ],
)
def test_a_local_address_is_refused_however_it_is_written(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-09: loopback, link-local and metadata addresses, also inside IPv6 addresses."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 443))])
    with pytest.raises(OutboundError, match="not allowed"):
        _address_of("mam.example", 443)


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "64:ff9b::c000:207"])
def test_a_public_address_may_be_called(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 443))])
    assert _address_of("mam.example", 443) == address


def test_a_network_in_the_settings_is_allowed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOK_ALLOWED_NETWORKS = ["127.0.0.0/8"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.0.1", 443))])
    assert _address_of("mam.example", 443) == "127.0.0.1"
