"""The tests' own networks: a cut is silent, and heals; a slow line is slow."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import psycopg
import pytest

import netns
from netns import Network, TcpServer

pytestmark = pytest.mark.skipif(netns.reason() is not None, reason=str(netns.reason()))


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(hosts=2) as network:
        yield network


@pytest.fixture(scope="module")
def server(network: Network) -> TcpServer:
    return network.server()


def test_a_cut_host_swallows_packets_and_a_connection_outlives_the_cut(
    network: Network, server: TcpServer
) -> None:
    with network.in_workers():
        connection = psycopg.connect(network.url("template"), autocommit=True)
        network.cut()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(network.url("template"), connect_timeout=2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((network.address(1), 5432), 2)
        network.heal()
        with connection:
            assert connection.execute("select 1").fetchone() == (1,)
    with psycopg.connect(server.url("template")) as inside:
        assert inside.execute("select 1").fetchone() == (1,)


def test_a_slow_line_adds_its_round_trip_to_every_statement(
    network: Network, server: TcpServer
) -> None:
    with (
        network.slow("template", 0.2) as url,
        network.in_workers(),
        psycopg.connect(url, autocommit=True) as connection,
    ):
        sent = time.monotonic()
        connection.execute("select 1")
        assert time.monotonic() - sent >= 0.2
