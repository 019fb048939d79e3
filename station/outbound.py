"""HTTP to addresses people typed in: only to the outside world, only https or http, no redirects, bounded in time."""

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

from station.redaction import redact

ANSWER_LIMIT_BYTES = 64 * 1024
# Where clouds tell machines their secrets, beside the link-local address all of them know.
NAT64 = ipaddress.ip_network("64:ff9b::/96")
METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))


class OutboundError(Exception):
    """The call was refused, failed, or was answered with something other than success."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


def check_url_form(url: str) -> None:
    parts = urlsplit(url)
    try:
        parts.port  # noqa: B018  (reading it checks it)
    except ValueError as error:
        raise ValidationError("The port in the address is not valid.") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValidationError("Give a complete address that begins with https:// or http://.")
    if parts.username or parts.password:
        raise ValidationError("Leave user name and password out of the address; use the signing secret.")


def _unwrapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that an IPv6 one stands for: mapped, behind 6to4, or behind NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _address_of(host: str, port: int) -> str:
    """The numeric address we will really connect to, checked: a name cannot lead us home (S-09)."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundError(f"{host} has no address: {error}") from error
    allowed = [ipaddress.ip_network(network) for network in settings.WEBHOOK_ALLOWED_NETWORKS]
    for *_, sockaddr in found:
        address = ipaddress.ip_address(sockaddr[0])
        address = _unwrapped(address)
        if any(address.version == network.version and address in network for network in allowed):
            return str(sockaddr[0])
        if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
            raise OutboundError(f"{host} is an address of this machine or this link ({address}), which is not allowed")
        if address in METADATA:
            raise OutboundError(
                f"{host} is where a cloud keeps its machines' secrets ({address}), which is not allowed"
            )
    return str(found[0][4][0])


def post(url: str, body: bytes, headers: dict[str, str], timeout: float) -> Answer:
    """POST once; any status but 2xx is an error, a redirect too."""
    return call("POST", url, body, headers, timeout)


def call(
    method: str,
    url: str,
    body: bytes | BinaryIO,
    headers: dict[str, str],
    timeout: float,
    *,
    also: Collection[int] = (),
) -> Answer:
    """One call; any status but 2xx, or one of `also`, is an error, a redirect too. A file is sent as it is read."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address_of(host, port)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        # Connect to the checked address ourselves: a second look-up by the library could answer differently.
        raw = socket.create_connection((address, port), timeout=timeout)
        if parts.scheme == "https":
            raw = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
        connection.sock = raw
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=body, headers=headers)
        with _cut_after(raw, timeout):
            response = connection.getresponse()
            answer = Answer(response.status, _read_bounded(response))
    except (OSError, http.client.HTTPException) as error:
        raise OutboundError(f"{host}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if not 200 <= answer.status < 300 and answer.status not in also:
        words = redact(answer.body[:200].decode(errors="replace")).strip()
        raise OutboundError(f"{host} answered {answer.status}{f': {words}' if words else ''}")
    return answer


@contextlib.contextmanager
def _cut_after(connected: socket.socket, seconds: float) -> Iterator[None]:
    """The whole answer in so long, status and headers too: a server that drips a byte a second does not hold us."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read_bounded(response: http.client.HTTPResponse) -> bytes:
    """So much and no more, and no less than was promised."""
    content = b""
    while len(content) < ANSWER_LIMIT_BYTES:
        block = response.read1(ANSWER_LIMIT_BYTES - len(content))
        if not block:
            if response.length:
                raise http.client.IncompleteRead(content, response.length)
            break
        content += block
    return content
