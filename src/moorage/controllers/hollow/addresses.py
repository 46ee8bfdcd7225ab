"""Addresses that nobody answers at, but that no two have at the same time."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from moorage.client.informer import Key


class Addresses:
    """The addresses of a network, given out in turn to whoever asks, and to each only one."""

    def __init__(self, network: str) -> None:
        whole = IPv4Network(network)
        self._first, self._count = int(whole.network_address) + 1, whole.num_addresses - 2
        self._next = 0
        self._of: dict[Key, str] = {}
        self._taken: set[str] = set()

    def hold(self, owner: Key, address: str) -> None:
        """Somebody has an address already."""
        self.release(owner)
        self._of[owner] = address
        self._taken.add(address)

    def of(self, owner: Key) -> str:
        """The address that somebody has, or now gets."""
        while owner not in self._of:
            address = str(IPv4Address(self._first + self._next % self._count))
            self._next += 1
            if address not in self._taken:
                self.hold(owner, address)
        return self._of[owner]

    def release(self, owner: Key) -> None:
        """Somebody is gone, and whoever comes may have the address."""
        self._taken.discard(self._of.pop(owner, ""))
