"""One step of the loop: when it is due, and running it so that its faults stop no other step."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module

import psycopg
from django.db import InterfaceError, OperationalError

from scheduling.leader.dispatch import LOCKED_RETRY
from station.database.locks import is_busy
from station.leader_term import Term

logger = logging.getLogger(__name__)

Step = Callable[[Term, datetime], datetime | None]
DATABASE_FAULTS = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)


def due_sql(path: str) -> str:
    """The SQL for the time at which this step is next due: DUE_SQL of its module, or "now" if there is none."""
    sql: str = getattr(import_module(path.rpartition(".")[0]), "DUE_SQL", "SELECT clock_timestamp()")
    return sql


def run_step(path: str, step: Step, term: Term, now: datetime) -> datetime | None:
    """When the step is needed again."""
    try:
        return step(term, now)
    except DATABASE_FAULTS as error:
        if not is_busy(error):
            raise  # the database is down: no step can do anything
        logger.warning("A step waits for a row that somebody else has locked. step=%s", path)
        return now + LOCKED_RETRY
    except Exception:  # a bug in one step must not stop the others
        logger.exception("A step failed. step=%s", path)
        return now + timedelta(seconds=1)
