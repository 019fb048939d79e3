"""DATABASE_URL is read as libpq reads it, and every session of ours carries limits (R-02)."""

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from config.database_settings import add_keepalives, read_limits, read_url
from station.database.roles import LEADER, session_options
from station.database.sessions import connect


def test_every_parameter_of_libpq_is_passed_on() -> None:
    url = "postgresql://air:s%40fe@one:5432,two:5433/station?sslmode=verify-full&channel_binding=require&options=-c%20a%3D1"
    found = read_url(url)
    assert (found["NAME"], found["USER"], found["PASSWORD"]) == ("station", "air", "s@fe")
    assert (found["HOST"], found["PORT"]) == ("one,two", "5432,5433")
    assert found["OPTIONS"] == {
        "sslmode": "verify-full",
        "channel_binding": "require",
        "options": "-c a=1",
        "target_session_attrs": "read-write",
    }


def test_one_host_needs_no_attributes_and_the_url_wins_over_our_keepalives() -> None:
    found = add_keepalives(read_url("postgres://air@one/station?connect_timeout=3"))
    assert "target_session_attrs" not in found["OPTIONS"]
    assert found["OPTIONS"]["connect_timeout"] == "3"
    assert found["OPTIONS"]["keepalives_idle"] == 3


@pytest.mark.parametrize("url", ["mysql://air@one/station", "sqlite:///x", "postgresql://air:se%zzcret@one/station"])
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        read_url(url)
    assert "cret" not in str(refusal.value)


@pytest.mark.parametrize("given", ["lock=soon", "look=1", "lock=-1"])
def test_a_wrong_limit_is_refused_by_name(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_LIMITS_STEPS", given)
    with pytest.raises(ImproperlyConfigured, match="DATABASE_LIMITS_STEPS"):
        read_limits(environ.Env())


def test_a_limit_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_LIMITS_STEPS", "lock=1,sessions=10")
    limits = read_limits(environ.Env())["steps"]
    assert (limits["lock"], limits["sessions"], limits["idle"]) == (1, 10, 5)


@pytest.mark.django_db
def test_a_session_has_its_limits_from_the_first_statement() -> None:
    with connect("airlock test", LEADER) as session:
        row = session.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')").fetchone()
    assert row == ("1s", "10s")
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')")
        assert cursor.fetchone() == ("10s", "10min"), "the limits of commands"


def test_options_of_the_administrator_come_last_and_win() -> None:
    assert session_options(LEADER, "-c lock_timeout=7s").endswith("-c lock_timeout=7s")
