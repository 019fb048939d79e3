"""Writes the audit trail: one entry for everything a person does by hand."""

from datetime import date, datetime, time
from typing import Any

from django.db import models

from station.clock import database_now
from station.models import AuditEntry
from station.rights import project_id_of

HIDDEN_VALUE = "(secret)"


def subject_of(instance: models.Model) -> str:
    return f"{instance._meta.model_name}:{instance.pk}"


def values_of(instance: models.Model) -> dict[str, Any]:
    """The fields of a row in a readable form; of sealed ones, only whether they are set."""
    values: dict[str, Any] = {}
    for field in instance._meta.concrete_fields:
        value = field.value_from_object(instance)
        if field.name.endswith("_sealed") or field.name == "password":
            value = HIDDEN_VALUE if value else ""
        elif not isinstance(value, (str, int, float, bool, type(None), list, dict, date, datetime, time)):
            value = str(value)
        values[field.name] = value
    return values


def record(
    who: str,
    what: str,
    instance: models.Model,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    note: str = "",
    sealed_changed: bool = False,
    result: str = AuditEntry.Result.DONE,
) -> AuditEntry:
    """Store who did what, and the result; of `before` and `after`, only what differs is kept."""
    before, after = before or {}, after or {}
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return AuditEntry.objects.create(
        at=database_now(),
        who=who,
        what=what,
        result=result,
        subject=subject_of(instance),
        subject_name=str(instance)[:200],
        project_id=project_id_of(instance),
        before={name: before[name] for name in changed if name in before},
        after={name: after[name] for name in changed if name in after},
        note="; ".join(filter(None, [note, "secret changed" if sealed_changed else ""])),
    )
