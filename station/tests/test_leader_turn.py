"""Other threads give way to a turn of the leader that takes long (P-18)."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from django.db import connection, transaction

from station import leader_turn
from station.clock import database_now
from station.leader_turn import after_the_turn, turn
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Turns need help at once, and for as long as they last."""
    monkeypatch.setattr(leader_turn, "HELPED_FROM_SECONDS", 0.0)
    monkeypatch.setattr(leader_turn, "HELPED_UNTIL_SECONDS", 60.0)
    return monkeypatch


@contextmanager
def asking(*, is_atomic: bool = False) -> Iterator[threading.Event]:
    """A thread of a pool that asks the database something; the event tells that it has the answer."""
    answered = threading.Event()

    def ask() -> None:
        try:
            with connection.execute_wrapper(after_the_turn):
                if is_atomic:
                    with transaction.atomic():
                        database_now()
                else:
                    database_now()
            answered.set()
        finally:
            connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answered
    finally:
        thread.join(60)


def test_a_statement_waits_until_a_long_turn_is_over(patience: pytest.MonkeyPatch) -> None:
    with ExitStack() as leader:
        leader.enter_context(turn)
        wait_until(lambda: time.monotonic() > turn._began, 5, "the turn lasts")
        with asking() as answered:
            assert not answered.wait(0.3)
            leader.close()
            assert answered.wait(30)


def test_a_statement_in_a_transaction_does_not_wait(patience: pytest.MonkeyPatch) -> None:
    """It may have locked what the leader needs."""
    with turn, asking(is_atomic=True) as answered:
        assert answered.wait(30)


def test_a_turn_that_waits_for_something_else_stops_nobody(patience: pytest.MonkeyPatch) -> None:
    """A leader that waits for a lock or the network would otherwise hold up everything."""
    patience.setattr(leader_turn, "HELPED_UNTIL_SECONDS", 0.05)
    with turn, asking() as answered:
        assert answered.wait(30)


def test_without_a_turn_nobody_waits() -> None:
    with asking() as answered:
        assert answered.wait(30)
