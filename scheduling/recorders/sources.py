"""Source addresses by type: checked, and stored without their secrets (S-03, S-05).

Passphrases, stream keys, passwords and tokens in a typed address are moved to the sealed field when the form is saved;
`full_url` puts them back for the media worker.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ValidationError
from django.db import models

from nodes.models import Port
from worker.wire.configuration import Source


class SourceType(models.TextChoices):
    SRT = "srt", "SRT"
    RTMP = "rtmp", "RTMP"
    RTP = "rtp", "RTP (MPEG-TS)"
    UDP = "udp", "UDP (MPEG-TS)"
    RTSP = "rtsp", "RTSP"
    HLS = "hls", "HLS"
    DECKLINK = "decklink", "DeckLink"
    TEST = "test", "Test pattern"


SCHEMES = {
    SourceType.SRT: ("srt",),
    SourceType.RTMP: ("rtmp", "rtmps"),
    SourceType.RTP: ("rtp",),
    SourceType.UDP: ("udp",),
    SourceType.RTSP: ("rtsp", "rtsps"),
    SourceType.HLS: ("http", "https"),
}
EXAMPLES = {
    SourceType.SRT: "srt://encoder.example:9000 or, to wait for a caller, srt://0.0.0.0:9000?mode=listener",
    SourceType.RTMP: "rtmp://server.example/live or, to wait for a sender, rtmp://0.0.0.0:1935/live?listen=1",
    SourceType.RTP: "rtp://239.1.1.1:5004",
    SourceType.UDP: "udp://239.1.1.1:5000",
    SourceType.RTSP: "rtsp://camera.example/stream",
    SourceType.HLS: "https://server.example/live/index.m3u8",
    SourceType.DECKLINK: "the number of the device, from 0",
    SourceType.TEST: "leave it empty",
}
# Parameters that may be part of a stored address; every other parameter counts as a secret.
HARMLESS = {
    SourceType.SRT: {"mode", "latency", "rcvlatency", "peerlatency", "transtype", "pbkeylen", "maxbw", "pkt_size"},
    SourceType.RTMP: {"listen"},
    SourceType.RTP: {"localaddr", "localport", "buffer_size", "sources", "pkt_size", "timeout"},
    SourceType.UDP: {"localaddr", "buffer_size", "sources", "pkt_size", "fifo_size", "overrun_nonfatal", "timeout"},
    SourceType.RTSP: set(),
    SourceType.HLS: set(),
}
# The secrets that each type uses; others are not stored and never sent.
SECRETS_OF_TYPE: dict[str, frozenset[str]] = {
    SourceType.SRT: frozenset({"passphrase", "query"}),
    SourceType.RTMP: frozenset({"stream_key", "query"}),
    SourceType.RTP: frozenset(),
    SourceType.UDP: frozenset(),
    SourceType.RTSP: frozenset({"username", "password", "query"}),
    SourceType.HLS: frozenset({"username", "password", "query"}),
    SourceType.DECKLINK: frozenset(),
    SourceType.TEST: frozenset(),
}
# The secret that the form's secret field sets, by type.
SECRET_NAMES = {
    SourceType.SRT: "passphrase",
    SourceType.RTMP: "stream_key",
    SourceType.RTSP: "password",
    SourceType.HLS: "password",
}
_HOST = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$")
_NUMBER = re.compile(r"^[0-9]{1,10}$", re.ASCII)
# Parameters whose values are not plain numbers.
VALUES = {
    "mode": re.compile(r"^(caller|listener|rendezvous)$"),
    "transtype": re.compile(r"^(live|file)$"),
    "listen": re.compile(r"^[01]$"),
    "localaddr": re.compile(r"^[0-9A-Fa-f.:]+$"),
    "sources": re.compile(r"^[0-9A-Fa-f.:,]+$"),
}
MIN_SECRET_LENGTH = 4
NEEDS_PORT = {SourceType.SRT, SourceType.RTP, SourceType.UDP}


@dataclass(frozen=True)
class Parsed:
    """A checked address: the part that may be shown, and the secrets."""

    address: str
    secrets: dict[str, str] = field(default_factory=dict)


def parse_source(source_type: str, text: str, examples: Mapping[Any, str] | None = None) -> Parsed:
    """Check a typed address and split off its secrets. The ValidationError is shown at the form field."""
    kind = SourceType(source_type)
    text = text.strip()
    if kind is SourceType.TEST:
        if text:
            raise ValidationError("A test pattern has no address.")
        return Parsed("")
    if kind is SourceType.DECKLINK:
        if not re.fullmatch(r"[0-9]{1,2}", text, re.ASCII):
            raise ValidationError("Enter the number of the DeckLink device, from 0 to 99.")
        return Parsed(str(int(text)))
    return _parse_url(kind, text, (examples or EXAMPLES)[kind])


def _parse_url(kind: SourceType, text: str, example: str) -> Parsed:  # noqa: C901  a refusal for each part of a URL
    if any(ord(char) <= 32 or ord(char) == 127 for char in text):
        raise ValidationError("The address must not contain spaces or control characters.")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValidationError(f"The host or the port in the address is not valid. Example: {example}.") from error
    schemes = SCHEMES[kind]
    if parts.scheme not in schemes:
        allowed = " or ".join(f"{scheme}://" for scheme in schemes)
        raise ValidationError(f"The address of this type begins with {allowed}, for example {example}.")
    host = parts.hostname or ""
    if not _is_host(host) or parts.fragment:
        raise ValidationError(f"The host in the address is not valid. Example: {example}.")
    if kind in NEEDS_PORT and not port:
        raise ValidationError(f"The port is missing. Example: {example}.")
    secrets: dict[str, str] = {}
    if (parts.username or parts.password) and "password" not in SECRETS_OF_TYPE[kind]:
        raise ValidationError("An address of this type has no user name or password.")
    if parts.username:
        secrets["username"] = unquote(parts.username)
    if parts.password:
        secrets["password"] = unquote(parts.password)
    shown, hidden = _split_query(kind, parts.query)
    secrets.update(hidden)
    path = parts.path
    if kind is SourceType.RTMP:
        path, key = _split_stream_key(path)
        if key:
            secrets["stream_key"] = key
    name = f"[{host}]" if ":" in host else host
    netloc = f"{name}:{port}" if port else name
    return Parsed(urlunsplit((parts.scheme, netloc, path, urlencode(shown), "")), secrets)


def _split_query(kind: SourceType, query: str) -> tuple[list[tuple[str, str]], dict[str, str]]:
    shown: list[tuple[str, str]] = []
    hidden: list[tuple[str, str]] = []
    secrets: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in HARMLESS[kind]:
            if not VALUES.get(name, _NUMBER).match(value):
                raise ValidationError(f"The value of the parameter {name} is not valid.")
            shown.append((name, value))
        elif kind is SourceType.SRT and name == "passphrase":
            if not 10 <= len(value) <= 79:
                raise ValidationError("An SRT passphrase has 10 to 79 characters.")
            secrets["passphrase"] = value
        else:
            hidden.append((name, value))
    if kind is SourceType.SRT:
        unknown = [name for name, _ in hidden if name != "streamid"]
        if unknown:
            raise ValidationError(f"The SRT parameter {unknown[0]} is not supported.")
    if kind in {SourceType.RTP, SourceType.UDP} and hidden:
        raise ValidationError(f"The parameter {hidden[0][0]} is not supported.")
    if hidden:
        secrets["query"] = urlencode(hidden)
    return shown, secrets


def _split_stream_key(path: str) -> tuple[str, str]:
    """Split rtmp://host/app/KEY: everything after the application is the key."""
    app, _, key = path.lstrip("/").partition("/")
    return f"/{app}", key


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return bool(_HOST.match(host))
    return True


def full_url(source_type: str, address: str, secrets: dict[str, str]) -> str:
    """The address with its secrets. For the media worker's sealed config only."""
    kind = SourceType(source_type)
    if kind in {SourceType.TEST, SourceType.DECKLINK}:
        return address
    secrets = {name: value for name, value in secrets.items() if name in SECRETS_OF_TYPE[kind]}
    parts = urlsplit(address)
    netloc = parts.netloc
    if secrets.get("username") or secrets.get("password"):
        user = quote(secrets.get("username", ""), safe="")
        password = quote(secrets.get("password", ""), safe="")
        netloc = f"{user}:{password}@{netloc}"
    path = parts.path.rstrip("/") + "/" + secrets["stream_key"] if secrets.get("stream_key") else parts.path
    query = [part for part in (parts.query, secrets.get("query", "")) if part]
    if secrets.get("passphrase"):
        query.append(urlencode({"passphrase": secrets["passphrase"]}))
    return urlunsplit((parts.scheme, netloc, path, "&".join(query), ""))


def wire_source(source_type: str, address: str, secrets: dict[str, Any], size: str) -> Source:
    """The source as a media worker is told it, secrets included."""
    url = full_url(source_type, address, secrets)
    return Source(type=str(source_type), url=url, options=options_for(source_type, address), size=size)


def options_for(source_type: str, address: str) -> dict[str, str]:
    """ffmpeg's options for this source (worker.media.sources passes them outside the command line)."""
    kind = SourceType(source_type)
    if kind is SourceType.RTSP:
        return {"rtsp_transport": "tcp", "timeout": "10000000"}
    if kind is SourceType.RTMP:
        return {"listen": "1"} if is_listener(source_type, address) else {"rw_timeout": "10000000"}
    if kind is SourceType.HLS:
        return {"rw_timeout": "10000000"}
    return {}


def is_listener(source_type: str, address: str) -> bool:
    query = dict(parse_qsl(urlsplit(address).query))
    return query.get("mode") == "listener" or query.get("listen") == "1" or source_type in {"rtp", "udp"}


def port_needed(source_type: str, address: str) -> tuple[str, int] | None:
    """(kind, number) of the port that only one recorder may hold on its node, or None."""
    if source_type == SourceType.DECKLINK:
        return Port.Kind.DECKLINK, int(address)
    if source_type == SourceType.TEST or not is_listener(source_type, address):
        return None
    parts = urlsplit(address)
    if source_type in {SourceType.RTP, SourceType.UDP} and _is_multicast(parts.hostname or ""):
        return None  # several recorders may listen to one multicast group
    kind = Port.Kind.TCP if source_type == SourceType.RTMP else Port.Kind.UDP
    return kind, parts.port or 1935


def _is_multicast(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_multicast
    except ValueError:
        return False


def words_to_redact(secrets: dict[str, Any]) -> list[str]:
    """Every form in which a secret may appear in ffmpeg's output."""
    found: set[str] = set()
    for name, value in secrets.items():
        if name == "username" or not value:
            continue
        found |= {str(value), quote(str(value)), quote(str(value), safe="")}
        if name == "query":
            found |= {part for _, part in parse_qsl(str(value))}
    # Very short secrets are left out: they would blank out half of ffmpeg's output and protect nothing.
    return sorted((word for word in found if len(word) >= MIN_SECRET_LENGTH), key=len, reverse=True)
