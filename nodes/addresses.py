"""Read and check node addresses."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError

PROCESS = "process"
_HOST = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")


@dataclass(frozen=True)
class NodeAddress:
    """`scheme` is process, unix, ssh or tcp; `host` is where the HTTP ports of the media workers are reached."""

    scheme: str
    host: str
    text: str

    @property
    def is_process(self) -> bool:
        return self.scheme == PROCESS

    @property
    def is_local(self) -> bool:
        return self.scheme in {PROCESS, "unix"}


def is_host(text: str | None) -> bool:
    """Is it a host name or an IP address? A text that a program could read as an option is not."""
    if not text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST.match(text))
    return True


def parse_node_address(text: str) -> NodeAddress:
    """Read and check an address. The ValidationError is shown at the form field."""
    if text == PROCESS:
        return NodeAddress(PROCESS, "127.0.0.1", text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValidationError("The host or the port in the address is not valid.") from error
    if parts.scheme == "unix":
        path = PurePosixPath(parts.path)
        if parts.netloc or not path.is_absolute() or ".." in path.parts:
            raise ValidationError("A socket address looks like unix:///var/run/docker.sock.")
        return NodeAddress("unix", "127.0.0.1", text)
    if parts.scheme in {"ssh", "tcp"}:
        if not is_host(parts.hostname):
            raise ValidationError("The host name in the address is not valid.")
        if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.password:
            raise ValidationError("The address may contain only a user, a host and a port.")
        if parts.username and not re.match(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", parts.username):
            raise ValidationError("The user name in the address is not valid.")
        if parts.scheme == "tcp" and (port is None or parts.username):
            raise ValidationError("The address of an engine over mutual TLS looks like tcp://host:2376.")
        return NodeAddress(parts.scheme, parts.hostname or "", text)
    raise ValidationError("Use process, unix:///path, ssh://user@host or tcp://host:2376 (mutual TLS).")


def validate_node_address(text: str) -> None:
    parse_node_address(text)
