"""Wait for a condition with a deadline, never for a time.

The seconds a test gives are for an idle machine. Four test processes, engines and encoders may share two cores, so the
real deadline is several times that. A condition that holds early costs no time.
"""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
PATIENCE = 4.0


def wait_until(
    condition: Callable[[], Result | None],
    seconds: float = 20.0,
    what: str = "",
    pause: float = 0.05,
    *,
    claim: bool = False,
) -> Result:
    """Call `condition` until its result is true and return that result; fail with `what` when the time is up.

    With `claim`, the seconds are what the test proves, and are not extended.
    """
    seconds *= 1.0 if claim else PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition}; last result: {result!r}")
        time.sleep(pause)
