"""The pool of database sessions after the server was away (R-02, R-04)."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from station.database.roles import POOL_WAIT_SECONDS, pool_options
from testing.database import OwnServer, own_server
from testing.waiting import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.alone]

IDLE = 6
# Beside the time that the server itself needs. The pool's own limit is ten seconds.
CLAIM_SECONDS = 1.5


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def pool(server: OwnServer) -> Iterator[ConnectionPool[Any]]:
    """As Django makes it, with idle sessions."""
    with ConnectionPool(server.url, check=ConnectionPool.check_connection, **pool_options(24)) as pool:
        with ExitStack() as stack:
            for _ in range(IDLE):
                stack.enter_context(pool.connection())
        wait_until(lambda: pool.get_stats()["pool_available"] >= IDLE, 20, "the sessions are idle")
        yield pool


def test_who_asked_while_the_server_was_away_gets_a_session_as_soon_as_it_is_back(
    server: OwnServer, pool: ConnectionPool[Any]
) -> None:
    """And not when the wait for a session times out: a leader that waits starts nothing."""
    got_at: list[float] = []

    def ask() -> None:
        with pool.connection():
            got_at.append(time.monotonic())

    server.stop()
    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: pool.get_stats()["requests_waiting"], 20, "somebody waits for a session")
    failures = pool.get_stats()["connections_errors"]
    wait_until(lambda: pool.get_stats()["connections_errors"] > failures + 2, 1, "the server refuses")
    server.start()
    back_at = time.monotonic()
    asking.join(2 * POOL_WAIT_SECONDS)
    assert got_at, "the caller got no session at all"
    print(f"a session {got_at[0] - back_at:.2f} s after the server was back")
    assert got_at[0] - back_at < CLAIM_SECONDS


def test_idle_sessions_that_a_restart_has_ended_do_not_make_the_next_caller_wait(
    server: OwnServer, pool: ConnectionPool[Any]
) -> None:
    server.stop()
    server.start()
    asked_at = time.monotonic()
    with pool.connection():
        seconds = time.monotonic() - asked_at
    print(f"a session after {seconds:.2f} s")
    assert seconds < CLAIM_SECONDS
