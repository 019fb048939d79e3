"""Addresses of hosts for the status poller. A name that cannot be looked up must not delay the other hosts."""

import asyncio
import ipaddress
import socket
import time

# An address is looked up again after this time.
KEPT_SECONDS = 60.0


class HostAddresses:
    """For one event loop. Each name is looked up once at a time; the last known address is used meanwhile."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, float]] = {}
        self._asking: dict[str, asyncio.Task[str]] = {}

    async def find(self, host: str) -> str:
        """Raises OSError if it has no address."""
        try:
            return str(ipaddress.ip_address(host))
        except ValueError:
            pass
        address, at = self._known.get(host, ("", -1e9))
        if time.monotonic() - at < KEPT_SECONDS:
            return address
        if host not in self._asking:
            self._asking[host] = asyncio.get_running_loop().create_task(self._look_up(host))
        return address or await asyncio.shield(self._asking[host])

    async def _look_up(self, host: str) -> str:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            address = str(found[0][4][0])
            self._known[host] = address, time.monotonic()
            return address
        finally:
            del self._asking[host]
