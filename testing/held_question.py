"""Holds a job worker between its claim and its question for the next instant. Loaded with JOB_MODULES."""

import time
from collections.abc import Collection
from datetime import datetime

from jobs.runs import claiming

HELD_SECONDS = 0.05
_ask = claiming.look


def _held(counted: Collection[int], claimed_at: datetime) -> claiming.Look:
    time.sleep(HELD_SECONDS)
    return _ask(counted, claimed_at)


claiming.look = _held
