"""An Action: one thing a person can do to one object, with permission, allowed states, function and audit entry.

Buttons, bulk actions, API calls and commands all call the same Action. The audit entry is written afterwards, from the
Outcome: an action that lost a race is recorded as "nothing", never as done.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError, InterfaceError

from station import audit
from station.actions.outcome import Outcome, Refusal, Result, refused
from station.clock import database_now
from station.redaction import redact
from station.states import Machine

Act = Callable[..., Outcome]


@dataclass(frozen=True)
class Action:
    """Call it with the object, `by` and the values of the form."""

    name: str  # in the audit trail: "run now"
    label: str  # on the button: "Run now"
    act: Act
    permissions: tuple[str, ...]  # all are required, checked for the object
    states: Collection[str] = ()  # in which it is possible; empty: in all
    when: Callable[[Any], bool] | None = None  # another condition
    otherwise: str | Callable[[Any], str] = ""  # the reason if `when` is False: "already paused"; empty: its state
    makes_target: bool = False  # the outcome's target is new; the audit entry is about the target

    def may(self, user: Any, row: Any = None) -> bool:
        """Whether the user has the permissions for this object; without one: for any object at all."""
        return all(user.has_perm(permission, row) for permission in self.permissions)

    def is_possible(self, row: Any) -> bool:
        return (not self.states or row.state in self.states) and (self.when is None or self.when(row))

    def __call__(self, row: Any, *, by: str, now: datetime | None = None, **values: Any) -> Outcome:
        """Do it if the object's state allows it, and record what happened. Does not check permissions: see `may`."""
        before = _state_of(row)
        try:
            outcome = self._attempt(row, by=by, now=now or database_now(), **values)
        except Exception as error:  # recorded as failed, then raised: nothing is swallowed
            with suppress(DatabaseError, InterfaceError):  # the database may be what failed
                audit.record(by, self.name, row, result=Result.FAILED, note=redact(f"{type(error).__name__}: {error}"))
            raise
        self._record(row, outcome, by, before)
        return outcome

    def _attempt(self, row: Any, **how: Any) -> Outcome:
        if not self.is_possible(row):
            given = self.otherwise(row) if callable(self.otherwise) else self.otherwise
            word = given or getattr(row, "state_word", "not in a state that allows this")
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
    """Decorator: make an Action of a function `(row, *, now, by, **values) -> Outcome`."""
    permissions = (permission,) if isinstance(permission, str) else permission
    return lambda act: Action(name, label, act, permissions, **more)
