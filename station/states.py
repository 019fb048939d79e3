"""The base class of all state machines: a table of moves, and `move()`, the only function that writes a state.

A move is a compare-and-set UPDATE plus its event row in one transaction. A move that is not in the table is a bug and
raises. If no row is updated, another process was faster, and `move()` returns False.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.utils import timezone

from station.database.prepared_sql import fetch_prepared

SCHEDULER = "scheduler"


def sql_list(states: Iterable[str]) -> str:
    """Names of states for `state IN (...)` in SQL of ours: `f"state IN ({sql_list(Run.WAITING)})"`."""
    return ", ".join(f"'{state}'" for state in states)


class IllegalMove(Exception):
    """A move that is not in MOVES: a bug in the caller."""


class Machine(models.Model):
    """A row with a state. Subclasses declare State, MOVES, DEADLINES, COLOURS and an event model (`events`)."""

    MOVES: ClassVar[Mapping[str, Collection[str]]]
    # How long a state may last before the sweep checks it. The caller of `move` may set `deadline_at` instead.
    DEADLINES: ClassVar[Mapping[str, timedelta]] = {}
    # States that count as over although a person may still leave them. A state without any move is always over.
    OVER: ClassVar[Collection[str]] = ()
    # The badge colour of each state, see static/airlock/badges.css.
    COLOURS: ClassVar[Mapping[str, str]] = {}

    state = models.CharField(max_length=16, editable=False)
    state_since_at = models.DateTimeField(default=timezone.now, editable=False)
    deadline_at = models.DateTimeField(null=True, editable=False)

    events: Any  # the reverse manager of the event model

    class Meta:
        abstract = True

    @classmethod
    def live_states(cls) -> set[str]:
        return {state for state, nexts in cls.MOVES.items() if nexts and state not in cls.OVER}

    @property
    def is_over(self) -> bool:
        return self.state not in self.live_states()

    @property
    def state_word(self) -> str:
        """The state's label in lower case, for use in a sentence."""
        label: str = getattr(self, "State")(self.state).label  # noqa: B009  (each subclass declares its own)
        return label.lower()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """For an existing row, write only the editable columns: a form or program that read the row earlier must not
        undo a move made since. To write another column, name it in `update_fields`."""
        if self.pk is not None and not self._state.adding and kwargs.get("update_fields") is None:
            columns = self._meta.concrete_fields
            kwargs["update_fields"] = [each.name for each in columns if each.editable and not each.primary_key]
        super().save(*args, **kwargs)

    def may_move(self, to: str) -> bool:
        return to in self.MOVES[self.state]

    def move(self, to: str, *, now: datetime, by: str = SCHEDULER, note: str = "", **changes: Any) -> bool:
        """Move from the state this object was read in to `to`. False if the row has left that state since.

        `state_since_at` is compared too: a row that left the state and came back does not match.
        """
        old = self.state
        if not self.may_move(to):
            raise IllegalMove(f"{self._meta.model_name} {self.pk}: {old} -> {to} is not a legal move")
        limit = self.DEADLINES.get(to)
        changes.setdefault("deadline_at", now + limit if limit and to in self.live_states() else None)
        changes = {"state": to, "state_since_at": now, **changes}
        with transaction.atomic():
            rows = (
                type(self)
                ._base_manager.filter(pk=self.pk, state=old, state_since_at=self.state_since_at)
                .update(**changes)
            )
            if not rows:
                return False
            self.events.create(at=now, old=old, new=to, by=by, note=note)
        for name, value in changes.items():
            setattr(self, name, value)
        return True

    @classmethod
    def move_batch(cls, pks: Sequence[int], old: str, to: str, **how: Any) -> list[int]:
        """`move_rows`, returning only the ids of the moved rows."""
        return [row[0] for row in cls.move_rows(pks, old, to, **how)]

    @classmethod
    def move_rows(  # noqa: PLR0913  the one statement that moves rows; each keyword is a part of it
        cls,
        pks: Sequence[int],
        old: str,
        to: str,
        *,
        now: datetime,
        by: str = SCHEDULER,
        note: str | Sequence[str] = "",
        guard: str = "true",
        changes: Mapping[str, str] = MappingProxyType({}),
        values: Mapping[str, Any] = MappingProxyType({}),
        returning: Sequence[str] = (),
        is_durable: bool = False,
        at_most: int | None = None,
        skip_locked: bool = False,
        is_noted: bool = True,
        is_prepared: bool = True,
    ) -> list[tuple[Any, ...]]:
        """`move` for many rows in one statement: compare-and-set plus event rows. Returns (id, *returning) per row.

        `guard` and `changes` are SQL from our code with named parameters from `values`, never user input. Without
        `is_durable` the commit does not wait for the disk: if the server crashes, a row may return to its old state
        and is moved again. `note` may be a list with one for each of `pks`. `at_most` limits the move to the first rows
        of `pks` that are not locked. `skip_locked` leaves out rows that somebody else has locked, instead of waiting.
        `is_noted=False` writes no events; use it only where the row itself holds all the facts. `is_prepared=False` is
        for what web processes call.
        """
        if to not in cls.MOVES[old]:
            raise IllegalMove(f"{cls._meta.model_name}: {old} -> {to} is not a legal move")
        limit = cls.DEADLINES.get(to)
        event: Any = cls._meta.get_field("events").related_model
        table, events = cls._meta.db_table, event._meta.db_table
        settings = {"deadline_at": "%(_deadline)s::timestamptz", **changes}
        extra = "".join(f", {name} = {sql}" for name, sql in settings.items())
        order, free = "ORDER BY id", ""  # every transaction locks in the same order, so that none deadlock
        if skip_locked:
            free = "SKIP LOCKED"
        if at_most is not None:
            order, free = "ORDER BY array_position(%(_pks)s::bigint[], id) LIMIT %(_at_most)s", "SKIP LOCKED"
        answers = "".join(f", {table}.{name}" for name in returning)
        noted = f""",
            noted AS (
                INSERT INTO {events} (subject_id, at, old, new, by, note, detail)
                SELECT id, %(_now)s::timestamptz, %(_old)s::text, %(_to)s::text, %(_by)s::text, {cls._note_sql(note)},
                    '{{}}' FROM moved)"""  # noqa: S608  (names of our own tables and columns)
        statement = f"""
            WITH quick AS MATERIALIZED (
                SELECT set_config('synchronous_commit', %(_commit)s, true)),
            due AS MATERIALIZED (
                SELECT id FROM {table}, quick
                WHERE id = ANY(%(_pks)s::bigint[]) AND state = %(_old)s::text AND {guard}
                {order} FOR NO KEY UPDATE OF {table} {free}),
            moved AS (
                UPDATE {table} SET state = %(_to)s::text, state_since_at = %(_now)s::timestamptz{extra}
                FROM due WHERE {table}.id = due.id RETURNING {table}.id{answers}){noted if is_noted else ""}
            SELECT * FROM moved"""  # noqa: S608  (names of our own tables and columns)
        given: dict[str, Any] = {"_pks": list(pks), "_old": old, "_to": to, "_now": now, "_by": by}
        given["_note"] = note if isinstance(note, str) else list(note)
        given |= {"_deadline": now + limit if limit else None, "_commit": "on" if is_durable else "off"}
        given["_at_most"] = at_most
        return fetch_prepared(statement, {**values, **given}, is_prepared=is_prepared)

    @classmethod
    def _note_sql(cls, note: str | Sequence[str]) -> str:
        return (
            "%(_note)s::text"
            if isinstance(note, str)
            else "(%(_note)s::text[])[array_position(%(_pks)s::bigint[], id)]"
        )

    @classmethod
    def own(cls, name: str, kind: str) -> str:
        """SQL for `move_rows`: the element of the array `name` at the row's position in `pks`."""
        return f"(%({name})s::{kind}[])[array_position(%(_pks)s::bigint[], {cls._meta.db_table}.id)]"

    def remark(self, note: str, *, now: datetime, by: str = SCHEDULER) -> None:
        """Write an event without a move: a note for the row's history."""
        self.events.create(at=now, old=self.state, new=self.state, by=by, note=note)


class Event(models.Model):
    """The history of one machine, append-only. Subclasses add the foreign key `subject` (related name `events`)."""

    at = models.DateTimeField()
    old = models.CharField(max_length=16)
    new = models.CharField(max_length=16)
    by = models.CharField(max_length=150)
    note = models.TextField(blank=True)
    detail = models.JSONField(default=dict, blank=True, encoder=DjangoJSONEncoder)

    class Meta:
        abstract = True
        ordering = ["at", "id"]

    def __str__(self) -> str:
        arrow = self.new if self.old == self.new else f"{self.old} -> {self.new}"
        return f"{arrow}: {self.note}" if self.note else arrow
