"""Shared parts of the HTTP APIs: permission checks, saving with an audit row, and error replies."""

from collections.abc import Collection
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Schema
from ninja.errors import HttpError

from station import audit
from station.actions import Action, Outcome
from station.clock import house_time
from station.models import Project
from station.rights import only_visible, projects_with

Row = TypeVar("Row", bound=models.Model)
FORBIDDEN, CONFLICT, UNPROCESSABLE = 403, 409, 422
MOST_ROWS = 200
NO_PERMISSION = "You may see it, but not do that."


class Answer(Schema):
    """The result of a call, as a sentence."""

    text: str
    details: dict[str, Any] = {}


def visible(rows: models.QuerySet[Row], request: HttpRequest) -> models.QuerySet[Row]:
    """The rows that the token's user may see (S-01)."""
    meta = rows.model._meta
    return only_visible(rows, request.user, f"{meta.app_label}.view_{meta.model_name}")


def one(rows: models.QuerySet[Row], request: HttpRequest, pk: int) -> Row:
    """One row. 404 if it does not exist, and also if the user may not see it."""
    found: Row = get_object_or_404(visible(rows, request), pk=pk)
    return found


def check(request: HttpRequest, permission: str, row: models.Model) -> None:
    if not request.user.has_perm(permission, row):
        raise HttpError(FORBIDDEN, NO_PERMISSION)


def by(request: HttpRequest) -> str:
    return f"{request.user.get_username()} (API)"


def carry_out(request: HttpRequest, action: Action, row: models.Model, **values: Any) -> Outcome:
    """Do what the button does. 403 for what the person may not do, 409 with the sentence unless all went well."""
    if not action.may(request.user, row):
        raise HttpError(FORBIDDEN, NO_PERMISSION)
    outcome = action(row, by=by(request), **values)
    if not outcome.is_good:
        free = outcome.details.get("free_at")
        raise HttpError(CONFLICT, f"{outcome.text} Free from {house_time(free)}." if free else outcome.text)
    return outcome


def answer(request: HttpRequest, action: Action, row: models.Model, **values: Any) -> Answer:
    """The same, answered with the sentence."""
    outcome = carry_out(request, action, row, **values)
    return Answer(text=outcome.text, details=dict(outcome.details))


def project_of(request: HttpRequest, slug: str, permission: str) -> Project:
    """The project in which a new object is created. 404 if the user lacks the permission there."""
    found: Project = get_object_or_404(projects_with(request.user, permission), slug=slug)
    return found


def store(
    request: HttpRequest,
    row: models.Model,
    verb: str,
    *,
    permission: str = "",
    of: models.Model | None = None,
    where: str = "",
    fields: Collection[str] | None = None,
) -> None:
    """Check the permission, validate, save (a change writes only `fields`) and audit. 422 lists every error."""
    meta = row._meta
    check(request, permission or f"{meta.app_label}.{verb}_{meta.model_name}", of or row)
    before = audit.values_of(type(row)._base_manager.get(pk=row.pk)) if verb == "change" else {}
    validate(row, where)
    with transaction.atomic():
        row.save(update_fields=fields)
        audit.record(by(request), verb, row, before=before, after=audit.values_of(row))


def validate(row: models.Model, where: str = "") -> None:
    """422 lists every error."""
    try:
        row.full_clean()
    except ValidationError as error:
        raise HttpError(UNPROCESSABLE, "; ".join(_faults(error, where))) from error


def remove(request: HttpRequest, row: models.Model) -> None:
    """Delete the row and write the audit row in one transaction. 409 if another object still uses it."""
    meta = row._meta
    check(request, f"{meta.app_label}.delete_{meta.model_name}", row)
    try:
        with transaction.atomic():
            audit.record(by(request), "delete", row, before=audit.values_of(row))
            row.delete()
    except models.ProtectedError as error:
        needed = ", ".join(sorted({str(each) for each in error.protected_objects})[:3])
        raise HttpError(CONFLICT, f"It cannot be deleted because it is used by {needed}.") from error


def _faults(error: ValidationError, where: str) -> list[str]:
    if not hasattr(error, "error_dict"):
        return [f"{where + ': ' if where else ''}{text}" for text in error.messages]
    return [
        f"{where + ', ' if where else ''}{name}: {text}" if name != "__all__" else text
        for name, texts in error.message_dict.items()
        for text in texts
    ]
