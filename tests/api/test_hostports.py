"""Host ports are compared as sets, which say the same as comparing each with each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.api.requests import HostPort

ANY = "0.0.0.0"
PORTS = st.lists(
    st.builds(
        HostPort,
        st.sampled_from(("TCP", "UDP")),
        st.sampled_from((ANY, "10.0.0.1", "10.0.0.2")),
        st.sampled_from((80, 443)),
    ),
    max_size=3,
)


def conflict(one: HostPort, other: HostPort) -> bool:
    same = (one.port, one.protocol) == (other.port, other.protocol)
    return same and (one.address == other.address or ANY in (one.address, other.address))


def free(needed: list[HostPort], taken: list[HostPort]) -> bool:
    return {each for port in needed for each in port.needed}.isdisjoint({each for port in taken for each in port.taken})


@given(PORTS, PORTS)
def test_a_port_is_free_when_it_conflicts_with_none(needed: list[HostPort], taken: list[HostPort]) -> None:
    assert free(needed, taken) is not any(conflict(one, other) for one in needed for other in taken)


def test_very_many_ports_are_compared_in_one_go() -> None:
    first = [HostPort("TCP", "10.0.0.1", port) for port in range(60_000)]
    second = [HostPort("TCP", "10.0.0.2", port) for port in range(60_000)]
    assert free(first, second)
    assert not free(first, [*second, first[-1]])
