"""The outcome of an action: done, refused or nothing to do, with a text for the person."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import models

from station.models import AuditEntry

Result = AuditEntry.Result


@dataclass(frozen=True)
class Outcome:
    """The result. `text` is shown to the person and stored in the audit trail, so it holds no secret."""

    result: AuditEntry.Result
    text: str
    target: models.Model | None = None  # what the text is about, if not the object; pages link to it
    reason: str = ""  # the short form of a refusal, for a report on many objects
    details: Mapping[str, Any] = field(default_factory=dict)  # for the audit trail and for API callers
    needs_attention: bool = False  # done, but not as asked: shown as a warning, 409 in the API
    shown_once: str = ""  # a link or token, shown to the person and never stored

    @property
    def is_done(self) -> bool:
        return self.result is Result.DONE

    @property
    def is_good(self) -> bool:
        return self.is_done and not self.needs_attention


def done(text: str, **more: Any) -> Outcome:
    return Outcome(Result.DONE, text, **more)


def refused(text: str, **more: Any) -> Outcome:
    return Outcome(Result.REFUSED, text, **more)


def nothing(text: str, **more: Any) -> Outcome:
    return Outcome(Result.NOTHING, text, **more)


def changed_meanwhile(row: Any) -> Outcome:
    """Someone else was faster: `move()` or another compare-and-set changed no row."""
    try:
        row.refresh_from_db()
    except ObjectDoesNotExist:
        return nothing(f"Nothing was done: {row} has just been deleted.", reason="just deleted")
    word = getattr(row, "state_word", "")
    return nothing(
        f"Nothing was done: {row} has just been changed by someone else" + (f" and is {word}." if word else "."),
        reason=word or "just changed by someone else",
    )


class Refusal(Exception):
    """It cannot be done; the text says why. An Action turns this exception and its subclasses into "refused"."""

    def outcome(self) -> Outcome:
        return refused(str(self))
