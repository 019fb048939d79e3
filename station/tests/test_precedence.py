"""Ordinary tasks give way to a turn of the leader that takes long, and to starts of recordings (P-18)."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from django.db import OperationalError, connection, transaction

from station import precedence
from station.clock import database_now
from station.database.roles import pool_options
from station.precedence import after_the_others, ordinary, starts, turn
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Turns and starts need help at once, and for as long as they last."""
    monkeypatch.setattr(precedence, "HELPED_FROM_SECONDS", 0.0)
    monkeypatch.setattr(precedence, "HELPED_UNTIL_SECONDS", 60.0)
    monkeypatch.setattr(precedence, "START_HELPED_SECONDS", 60.0)
    return monkeypatch


@contextmanager
def asking(*, is_atomic: bool = False, is_ordinary: bool = True, times: int = 1) -> Iterator[threading.Event]:
    """A thread of a pool that asks the database something; the event tells that it has the answer."""
    answered = threading.Event()

    def ask() -> None:
        try:
            with ExitStack() as how:
                how.enter_context(connection.execute_wrapper(after_the_others))
                if is_ordinary:
                    how.enter_context(ordinary())
                if is_atomic:
                    how.enter_context(transaction.atomic())
                for _ in range(times):
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
    patience.setattr(precedence, "HELPED_UNTIL_SECONDS", 0.05)
    with turn, asking() as answered:
        assert answered.wait(30)


def test_without_a_turn_nobody_waits() -> None:
    with asking() as answered:
        assert answered.wait(30)


def test_an_ordinary_statement_waits_until_a_start_is_over(patience: pytest.MonkeyPatch) -> None:
    with ExitStack() as start:
        start.enter_context(starts.under_way())
        with asking() as answered:
            assert not answered.wait(0.3)
            start.close()
            assert answered.wait(30)


@pytest.mark.parametrize("how", [{"is_atomic": True}, {"is_ordinary": False}], ids=["atomic", "first"])
def test_a_start_does_not_stop_a_transaction_or_another_start(
    how: dict[str, bool], patience: pytest.MonkeyPatch
) -> None:
    with starts.under_way(), asking(**how) as answered:
        assert answered.wait(30)


def test_starts_that_never_end_delay_the_rest_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go on for as long as they have waited: a hundred starts in a row leave no channel alone."""
    monkeypatch.setattr(precedence, "START_HELPED_SECONDS", 2.0)
    began = time.monotonic()
    with starts.under_way(), asking(times=50) as answered:
        assert answered.wait(60)
    assert time.monotonic() - began >= 2.0


@pytest.fixture
def small_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four sessions for all threads of this process."""
    options = connection.settings_dict["OPTIONS"]
    with ExitStack() as cleanup:
        monkeypatch.setitem(options, "pool", pool_options(4) | {"timeout": 0.5})
        monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
        cleanup.callback(connection.close_pool)
        yield


def test_ordinary_tasks_leave_half_of_the_sessions_to_the_others(small_pool: None) -> None:
    """They hold their sessions until the test lets them go. Two more get none; a start gets one at once."""
    let_go, outcomes = threading.Event(), list[str]()

    def hold() -> None:
        try:
            with ordinary():
                database_now()
                outcomes.append("held")
                let_go.wait(60)
        except OperationalError:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: len(outcomes) == 4, 30, "all have tried")
        assert sorted(outcomes) == ["held", "held", "refused", "refused"]
        with asking(is_ordinary=False) as answered:
            assert answered.wait(30)
    finally:
        let_go.set()
        for thread in threads:
            thread.join(60)
    outcomes.clear()
    hold()
    assert outcomes == ["held"], "the sessions were given back"
