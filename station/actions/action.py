"""One thing a person can do to one object: who may, in which states, the function that does it, the audit entry.

Buttons, actions on many rows, API calls and commands all call the same Action. The audit entry is written after the
act, from its Outcome: an act that lost a race is on record as "nothing", never as done.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError

from station import audit
from station.actions.outcome import Outcome, Refusal, Result, refused
from station.clock import database_now
from station.redaction import redact
from station.states import Machine

Act = Callable[..., Outcome]


@dataclass(frozen=True)
class Action:
    """Call it with the object, `by` and what the form asks for."""

    name: str  # as the audit trail has it: "run now"
    label: str  # as the button has it: "Run now"
    act: Act
    permissions: tuple[str, ...]  # all of them, asked with the object
    states: Collection[str] = ()  # in which it makes sense; empty: in every one
    when: Callable[[Any], bool] | None = None  # what else must be so
    otherwise: str = ""  # what the object is instead: "already paused"; empty: its state
    makes_target: bool = False  # the outcome's target is new, and the audit entry is about that

    def may(self, user: Any, row: Any = None) -> bool:
        """Without an object: anywhere at all."""
        return all(user.has_perm(permission, row) for permission in self.permissions)

    def is_possible(self, row: Any) -> bool:
        return (not self.states or row.state in self.states) and (self.when is None or self.when(row))

    def __call__(self, row: Any, *, by: str, now: datetime | None = None, **values: Any) -> Outcome:
        """Do it if the object's state allows it, and write down what really happened. Asks for no permission."""
        before = _state_of(row)
        try:
            outcome = self._attempt(row, by=by, now=now or database_now(), **values)
        except Exception as error:
            with suppress(DatabaseError):  # the database itself may be what failed
                audit.record(by, self.name, row, result=Result.FAILED, note=redact(f"{type(error).__name__}: {error}"))
            raise
        self._record(row, outcome, by, before)
        return outcome

    def _attempt(self, row: Any, **how: Any) -> Outcome:
        if not self.is_possible(row):
            word = self.otherwise or getattr(row, "state_word", "not in a state for that")
            return refused(f"{row} is {word}.", reason=word)
        try:
            return self.act(row, **how)
        except Refusal as refusal:
            return refusal.outcome()

    def _record(self, row: Any, outcome: Outcome, by: str, before: dict[str, Any]) -> None:
        subject = outcome.target if self.makes_target and outcome.is_done and outcome.target is not None else row
        is_same = subject is row and outcome.is_done
        audit.record(
            by,
            self.name,
            subject,
            before=before if is_same else {},
            after={**(_state_of(row) if is_same else {}), **outcome.details},
            note=outcome.text,
            result=outcome.result,
        )


def _state_of(row: Any) -> dict[str, Any]:
    return {"state": row.state} if isinstance(row, Machine) else {}


def action(name: str, label: str, *, permission: str | tuple[str, ...], **more: Any) -> Callable[[Act], Action]:
    """Make an Action of the function below: `(row, *, now, by, **values) -> Outcome`."""
    permissions = (permission,) if isinstance(permission, str) else permission
    return lambda act: Action(name, label, act, permissions, **more)
