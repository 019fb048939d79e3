"""Declaring a job: `@job(...)` on a function registers it. The declaration is checked when the module is imported.

    @job("assets.probe", payload=ProbeOrder, isolation="process", timeout_seconds=600)
    def probe(run: RunContext, order: ProbeOrder) -> dict[str, Any]: ...

The modules that declare jobs are listed in the setting JOB_MODULES and imported when Django starts.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from jobs.definitions.fire_times import DAY, CatchUp, Cron, Every, When

Handler = Callable[..., Any]
NAME = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
# Without a heartbeat for this long, the job worker is considered dead. A run that must not be repeated would fail then,
# so it has more patience: nothing is gained by failing it early.
LEASE_SECONDS = 6.0
LEASE_SECONDS_NOT_REENTRANT = 90.0


class BadJob(Exception):
    """An invalid declaration: a bug found at import."""


@dataclass(frozen=True)
class Keep:
    """How long finished runs are kept (J-22)."""

    succeeded_seconds: float = 14 * DAY
    failed_seconds: float = 14 * DAY


MINOR = Keep(succeeded_seconds=DAY, failed_seconds=3 * DAY)


@dataclass(frozen=True)
class JobSpec:
    """The declaration of one job."""

    name: str
    handler: Handler
    title: str = ""
    # None: runs only when queued.
    when: When | None = None
    payload: type[Any] | None = None
    scopes: Callable[[], Iterable[str]] | None = None
    catch_up: CatchUp = field(default_factory=CatchUp)
    # "thread": light and cooperative. "process": may hang, crash or use much memory; is killed at its time limit.
    isolation: Literal["thread", "process"] = "thread"
    timeout_seconds: float = 60.0
    heartbeat_seconds: float = 2.0
    lease_seconds: float = LEASE_SECONDS
    # Hard limit: a run that is still running after this long is taken away, whatever its job worker reports.
    stale_seconds: float = 0.0
    attempts: int = 3
    backoff_seconds: tuple[float, ...] = (5.0, 30.0, 120.0)
    # May it run again when it is not known how far a lost attempt got? If False, it is never repeated.
    is_reentrant: bool = True
    # Runs at a time in the whole fleet (0: no limit), and whether two runs of one scope may overlap.
    concurrency: int = 0
    is_exclusive: bool = False
    memory_mb: int = 0
    keep: Keep = field(default_factory=Keep)

    @property
    def is_heavy(self) -> bool:
        return self.isolation == "process"

    @property
    def is_limited(self) -> bool:
        """Claims of such a job are serialised, because they count running runs."""
        return bool(self.concurrency) or self.is_exclusive

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def stale(self) -> timedelta:
        return timedelta(seconds=self.stale_seconds)

    def backoff(self, attempt: int) -> timedelta:
        """The pause after this attempt (1 is the first)."""
        waits = self.backoff_seconds or (0.0,)
        return timedelta(seconds=waits[min(attempt, len(waits)) - 1])


class Registry:
    """The jobs declared in this process."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobSpec] = {}
        # Increases with every change, so that the planner notices a job declared later in its next turn.
        self.version = 0

    def add(self, spec: JobSpec) -> JobSpec:
        check(spec)
        known = self.jobs.get(spec.name)
        if known is not None:
            raise BadJob(f"{spec.name} is declared twice: {known.handler.__module__} and {spec.handler.__module__}.")
        self.jobs[spec.name] = spec
        self.version += 1
        return spec

    def get(self, name: str) -> JobSpec | None:
        return self.jobs.get(name)

    def remove(self, name: str) -> None:
        self.jobs.pop(name, None)
        self.version += 1


registry = Registry()


def job(name: str, **options: Any) -> Callable[[Handler], Handler]:
    """Declare the function below as the handler of a job. The options are the fields of JobSpec."""

    def declare(handler: Handler) -> Handler:
        summary = (handler.__doc__ or "").strip().partition("\n")[0]
        given: dict[str, Any] = {"title": summary[:120], **options}
        given.setdefault("stale_seconds", given.get("timeout_seconds", JobSpec.timeout_seconds) * 1.5 + 60)
        # A job with a schedule is exclusive by default; a job that is only queued is not.
        given.setdefault("is_exclusive", given.get("when") is not None)
        if not given.get("is_reentrant", True):
            given.setdefault("lease_seconds", LEASE_SECONDS_NOT_REENTRANT)
        try:
            registry.add(JobSpec(name=name, handler=handler, **given))
        except TypeError as error:
            raise BadJob(f"{name}: {error}") from error
        return handler

    return declare


def every(seconds: float, delay_seconds: float = 0.0) -> Every:
    return Every(seconds, delay_seconds)


def by_cron(expression: str, zone: str) -> Cron:
    return Cron(expression, zone)


def check(spec: JobSpec) -> None:
    """J-02: an invalid declaration is refused at import, not when the job is due."""
    rules = {
        "the name must be words of a-z, 0-9 and _, separated by dots": bool(NAME.match(spec.name))
        and len(spec.name) <= 60,
        "the handler must be a function": callable(spec.handler),
        "isolation must be thread or process": spec.isolation in {"thread", "process"},
        "timeout_seconds must be positive": spec.timeout_seconds > 0,
        "stale_seconds must be more than timeout_seconds": spec.stale_seconds > spec.timeout_seconds,
        "heartbeat_seconds must be between 0 and stale_seconds": 0 < spec.heartbeat_seconds < spec.stale_seconds,
        "lease_seconds must be more than twice heartbeat_seconds": spec.lease_seconds > 2 * spec.heartbeat_seconds,
        "attempts must be at least 1": spec.attempts >= 1,
        "backoff_seconds must not be negative": all(wait >= 0 for wait in spec.backoff_seconds),
        "concurrency must not be negative": spec.concurrency >= 0,
        "catch_up must be latest or every, with a positive window and per_turn": spec.catch_up.mode
        in {"latest", "every"}
        and spec.catch_up.window_seconds > 0
        and spec.catch_up.per_turn >= 1,
        "payload must be a dataclass": spec.payload is None or dataclasses.is_dataclass(spec.payload),
        "a job with a schedule cannot have a payload": spec.when is None or spec.payload is None,
        "scopes need a schedule": spec.scopes is None or spec.when is not None,
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise BadJob(f"{spec.name}: {'; '.join(broken)}.")
