"""Calls a handler and turns whatever happens into an outcome. Used in threads and in child processes."""

import traceback
from dataclasses import dataclass
from typing import Any

from jobs.definitions.job_decorator import JobSpec
from jobs.definitions.payloads import BadPayload, dump_result, load
from jobs.definitions.run_context import Hopeless, RunContext, RunStopped
from jobs.models import Run
from jobs.runs.finishing import Failure

Fault = Run.Fault
FRAMES_SHOWN = 6


@dataclass(frozen=True)
class Success:
    result: Any


Outcome = Success | Failure


def call(spec: JobSpec, context: RunContext, stored: Any) -> Outcome:
    """Execute one attempt. Whatever the handler does, this returns an outcome (J-10, J-15)."""
    try:
        payload = load(stored, spec.payload)
    except BadPayload as error:
        return Failure(Fault.BAD_PAYLOAD, f"The payload cannot be read: {error}")
    try:
        given = spec.handler(context) if spec.payload is None else spec.handler(context, payload)
        return Success(dump_result(given))
    except RunStopped:
        return Failure(Fault.CANCELLED, "The handler stopped as asked.")
    except Hopeless as error:
        return Failure(Fault.HOPELESS, str(error))
    except BadPayload as error:
        return Failure(Fault.HANDLER_ERROR, f"The handler's result cannot be stored: {error}")
    except Exception as error:  # noqa: BLE001  a handler may fail in any way; every failure is stored as a readable text
        return Failure(Fault.HANDLER_ERROR, describe(error))
    except BaseException as error:  # noqa: BLE001  sys.exit in a handler is a failure of the work
        return Failure(Fault.HANDLER_ERROR, f"The handler tried to end its process: {describe(error)}")


def describe(error: BaseException) -> str:
    """The error and its stack, innermost frame first."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_SHOWN:]
    places = "\n".join(
        f"  {frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )
    words = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{words}\n{places}" if places else words
