"""IP addresses of hollow nodes and pods, each given to one at a time."""

from __future__ import annotations

from ipaddress import IPv4Network
from socket import inet_ntoa

from moorage.client.informer import Key


class Addresses:
    """The addresses of a network, assigned in turn, one to each owner."""

    def __init__(self, network: str) -> None:
        whole = IPv4Network(network)
        self._first, self._count = int(whole.network_address) + 1, whole.num_addresses - 2
        self._next = 0
        self._of: dict[Key, str] = {}
        self._taken: set[str] = set()

    def hold(self, owner: Key, address: str) -> None:
        """Note that an owner has an address already."""
        self.release(owner)
        self._of[owner] = address
        self._taken.add(address)

    def of(self, owner: Key) -> str:
        """The address of an owner, assigned now if it has none."""
        while owner not in self._of:
            address = inet_ntoa((self._first + self._next % self._count).to_bytes(4))
            self._next += 1
            if address not in self._taken:
                self.hold(owner, address)
        return self._of[owner]

    def release(self, owner: Key) -> None:
        """Free the address of an owner that is gone."""
        self._taken.discard(self._of.pop(owner, ""))
