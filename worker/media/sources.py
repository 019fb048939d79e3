"""Builds the ffmpeg input arguments for each type of source. No argument contains a secret.

Every user can read ffmpeg's command line (`ps`), and an address may contain a passphrase or a stream key. So the
address is passed through standard input, as a one-line list for ffmpeg's concat demuxer. Each type has its own list of
protocols. `file` is in none of them, so a playlist from outside cannot read the disk (S-03).
"""

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from worker.process.config_line import ConfigError
from worker.wire.configuration import Source

PROTOCOLS = {
    "srt": "srt,udp",
    "rtmp": "rtmp,rtmps,tcp,tls",
    "rtp": "rtp,udp",
    "udp": "udp",
    "rtsp": "rtsp,rtp,udp,tcp,tls",
    "hls": "http,https,tcp,tls,crypto",
}
SCHEMES = {
    "srt": {"srt"},
    "rtmp": {"rtmp", "rtmps"},
    "rtp": {"rtp"},
    "udp": {"udp"},
    "rtsp": {"rtsp", "rtsps"},
    "hls": {"http", "https"},
}
LISTENERS = ("mode=listener", "listen=1")
TYPES = {*SCHEMES, "test", "decklink"}
DROP_CONTROL = dict.fromkeys(range(32))


class Feeder(Protocol):
    """Writes a stream to a pipe while ffmpeg runs. `descriptor` is ffmpeg's end of the pipe."""

    descriptor: int

    def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True)
class Input:
    """Arguments before the outputs, data for stdin, whether the picture is unencoded, and what writes the stream."""

    arguments: list[str]
    stdin: bytes
    is_raw: bool
    feeder: Feeder | None = None


def build_input(
    source: Source,
    *,
    can_look_up_names: bool,
    device_name: Callable[[str], str] = lambda index: index,
    wrapper: str = "",
) -> Input:
    """`device_name` turns the number of a DeckLink device into ffmpeg's name for it.

    `wrapper` is a protocol that reads the list.
    """
    if source.type == "test":
        picture = f"testsrc2=size={source.size}:rate={source.rate}"
        tone = "sine=frequency=1000:sample_rate=48000"
        arguments = ["-re", "-f", "lavfi", "-i", picture, "-re", "-f", "lavfi", "-i", tone]
        return Input(arguments, b"", is_raw=True)
    if source.type == "decklink":
        options = [part for name, value in sorted(source.options.items()) for part in (f"-{name}", value)]
        return Input(["-f", "decklink", *options, "-i", device_name(source.url)], b"", is_raw=True)
    check_scheme(source)
    url = numeric(source.url, can_look_up_names=can_look_up_names)
    lines = ["ffconcat version 1.0", f"file {quoted(url)}"]
    lines += [f"option {name} {quoted(value)}" for name, value in sorted(source.options.items())]
    whitelist = ",".join(filter(None, [wrapper, "pipe", PROTOCOLS[source.type]]))
    name = f"{wrapper}:pipe:0" if wrapper else "pipe:0"
    arguments = ["-protocol_whitelist", whitelist, "-f", "concat", "-safe", "0", "-i", name]
    return Input(arguments, ("\n".join(lines) + "\n").encode(), is_raw=False)


def check_scheme(source: Source) -> None:
    """Raises ConfigError if the address does not fit the type (S-03)."""
    if source.type not in SCHEMES or urlsplit(source.url).scheme not in SCHEMES[source.type]:
        raise ConfigError(f"this is not an address for a {source.type} source")


def numeric(url: str, *, can_look_up_names: bool) -> str:
    """The address for ffmpeg: with the host's number if this ffmpeg cannot look up names."""
    return url if can_look_up_names else with_numeric_host(url)


def is_listener(source: Source) -> bool:
    """We wait for the sender to connect, instead of connecting to it."""
    return source.options.get("listen") == "1" or any(word in source.url for word in LISTENERS)


def needs_port(source: Source) -> bool:
    """Only one at a time can read it on this machine: a card, a listener, or a port of UDP that is not multicast."""
    if source.type in {"udp", "rtp"}:
        try:
            return not ipaddress.ip_address(urlsplit(source.url).hostname or "").is_multicast
        except ValueError:
            return True
    return source.type == "decklink" or is_listener(source)


def nth_decklink(listing: str, index: str) -> str:
    """The device's name in the output of `ffmpeg -sources decklink`: lines like `  81:8a7b [DeckLink Duo (1)]`."""
    names = re.findall(r"^\s+\S+ \[(.+)\]", listing, re.MULTILINE)
    if int(index) >= len(names):
        raise ConfigError(f"there is no DeckLink device {index}; ffmpeg finds {len(names)}")
    return str(names[int(index)])


def quoted(text: str) -> str:
    """A value for ffmpeg's list format. Control characters are removed, so that a value cannot add a second line."""
    return "'" + text.translate(DROP_CONTROL).replace("'", r"'\''") + "'"


def with_numeric_host(url: str) -> str:
    """Replace the host name by its address: the static ffmpeg crashes on host names."""
    parts = urlsplit(url)
    host = parts.hostname
    if not host:
        return url
    try:
        found = socket.getaddrinfo(host, parts.port or 0, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise ConfigError(f"the host name {host} has no address") from error
    address = str(found[0][4][0])
    if address == host:
        return url
    if parts.scheme in {"https", "rtmps", "rtsps"}:
        raise ConfigError("this machine's ffmpeg cannot check certificates by name: install ffmpeg, or use an address")
    number = f"[{address}]" if ":" in address else address
    userinfo = parts.netloc.rpartition("@")[0]
    netloc = f"{userinfo}@{number}" if userinfo else number
    return urlunsplit(parts._replace(netloc=f"{netloc}:{parts.port}" if parts.port else netloc))
