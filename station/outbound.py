"""HTTP calls to addresses that users typed in: https or http only, no local addresses, no redirects, a time limit."""

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
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Cloud metadata services, which hand out credentials. The usual link-local address is refused separately.
METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))


class OutboundError(Exception):
    """The call was refused, failed, or returned a status other than success."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


def check_url_form(url: str) -> None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (reading it checks it)
    except ValueError as error:
        raise ValidationError("The host or the port in the address is not valid.") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValidationError("Enter a complete address that begins with https:// or http://.")
    if parts.username or parts.password:
        raise ValidationError("Leave the user name and password out of the address; use the signing secret.")


def _unwrapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address inside an IPv6 address (mapped, 6to4 or NAT64), so that it is checked too."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _address_of(host: str, port: int) -> str:
    """Resolve and check the numeric address to connect to: a host name must not lead to this machine (S-09)."""
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
            raise OutboundError(f"{host} is a local address ({address}), which is not allowed")
        if address in METADATA:
            raise OutboundError(f"{host} is a cloud metadata service ({address}), which is not allowed")
    return str(found[0][4][0])


def post(url: str, body: bytes, headers: dict[str, str], timeout: float) -> Answer:
    """POST once. Any status but 2xx is an error, including a redirect."""
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
    """Call once. Any status but 2xx or one of `also` is an error, including a redirect. A file is streamed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address_of(host, port)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        # Connect to the checked address here: a second name lookup by the library could return another address.
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
        text = redact(answer.body[:200].decode(errors="replace")).strip()
        raise OutboundError(f"{host} answered {answer.status}{f': {text}' if text else ''}")
    return answer


@contextlib.contextmanager
def _cut_after(connected: socket.socket, seconds: float) -> Iterator[None]:
    """Limit the time for the whole response, so that a server sending one byte per second cannot hold the caller."""

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
    """Read up to ANSWER_LIMIT_BYTES. A response shorter than its Content-Length is an error."""
    content = b""
    while len(content) < ANSWER_LIMIT_BYTES:
        block = response.read1(ANSWER_LIMIT_BYTES - len(content))
        if not block:
            if response.length:
                raise http.client.IncompleteRead(content, response.length)
            break
        content += block
    return content
