"""Waiting for a condition with a deadline, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def wait_until(condition: Callable[[], Result], seconds: float = 20.0, what: str = "", pause: float = 0.05) -> Result:
    """Call `condition` until it is true; fail with `what` when the time is up. Returns what it answered."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}; last answer: {result!r}")
        time.sleep(pause)
