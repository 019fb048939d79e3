"""Named points at which a test can kill this process with SIGKILL. Without the FAILPOINT setting they do nothing.

`FAILPOINT=start.after_create` kills it when that point is first reached, `start.after_create:3` at the third time.
"""

import itertools
import os
import signal

from django.conf import settings

START_BEFORE_CALL = "start.before_call"
START_AFTER_CREATE = "start.after_create"
START_AFTER_START = "start.after_start"
START_BEFORE_RESULT = "start.before_result"
STOP_BEFORE_CALL = "stop.before_call"
STOP_BEFORE_RESULT = "stop.before_result"
STOP_AFTER_EXIT = "stop.after_exit"
STOP_AFTER_REMOVE = "stop.after_remove"

ALL = (
    START_BEFORE_CALL,
    START_AFTER_CREATE,
    START_AFTER_START,
    START_BEFORE_RESULT,
    STOP_BEFORE_CALL,
    STOP_BEFORE_RESULT,
    STOP_AFTER_EXIT,
    STOP_AFTER_REMOVE,
)


_times = itertools.count(1)


def reach(name: str) -> None:
    wanted, _, time = settings.FAILPOINT.partition(":")
    if name == wanted and next(_times) >= int(time or 1):
        os.kill(os.getpid(), signal.SIGKILL)
