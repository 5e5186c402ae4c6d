"""The addresses of a host, looked up and checked: none in a private network unless that is allowed."""

from __future__ import annotations

import asyncio
import socket
import time
from ipaddress import IPv4Address, IPv6Address, ip_address

from mainspring.errors import EndpointAway

# What was looked up is believed for so long (seconds).
FRESH_SECONDS = 30.0


def is_loopback(host: str) -> bool:
    """Whether a host as it is written is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is nobody's in the open: of this machine, a private network, a link, a group.

    One that carries an IPv4 address within is judged by that.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return is_private(inner)
    return not address.is_global or address.is_multicast


class AddressBook:
    """Where a host is to be found."""

    def __init__(self, host: str, *, private: bool) -> None:
        self._host = host
        self._private = private  # whether a private address is allowed
        self._found: list[str] = []  # the one to use first
        self._fresh_until = 0.0

    async def checked(self) -> str:
        """An address to connect to; raises EndpointAway if there is none that may be used."""
        if time.monotonic() < self._fresh_until:
            return self._found[0]
        loop = asyncio.get_running_loop()
        try:
            rows = await loop.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise EndpointAway(f"host {self._host!r} is not found: {error}") from error
        named = dict.fromkeys(str(address).partition("%")[0] for *_, (address, *_) in rows)
        found = [one for one in named if self._private or not is_private(ip_address(one))]
        if not found:
            raise EndpointAway(
                f"host {self._host!r} is in a private network; private=True allows it where that is meant"
            )
        if self._found and self._found[0] in found:  # others may have failed before
            found.remove(self._found[0])
            found.insert(0, self._found[0])
        self._found, self._fresh_until = found, time.monotonic() + FRESH_SECONDS
        return found[0]

    def failed(self, address: str) -> None:
        """It did not answer: the next of the host's addresses is used, if there are several."""
        if self._found and self._found[0] == address:
            self._found.append(self._found.pop(0))
