"""Waiting for a condition with a deadline, never for a time.

The seconds a test gives are for a machine that does nothing else. Four test processes, engines and encoders share two
cores: everybody has several times that, and a condition that comes in time costs nothing.
"""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
PATIENCE = 4.0


def wait_until(
    condition: Callable[[], Result], seconds: float = 20.0, what: str = "", pause: float = 0.05, *, claim: bool = False
) -> Result:
    """Call `condition` until it is true; fail with `what` when the time is up. Returns what it answered.

    With `claim` the seconds are themselves what is promised, and taken at their word.
    """
    seconds *= 1.0 if claim else PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}; last answer: {result!r}")
        time.sleep(pause)
