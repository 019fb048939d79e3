"""Base of management commands that carry out an Action: they print its text; a refusal ends with exit code 1."""

import json
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError
from django.db import models

from station.actions.action import Action
from station.actions.outcome import Outcome

BY = "command line"
Row = TypeVar("Row", bound=models.Model)


class ActionCommand(BaseCommand):
    """The base of every command that does what a button does."""

    def carry_out(self, action: Action, row: Any, **values: Any) -> Outcome:
        """Carry it out. Raises CommandError with the outcome's text unless all went well."""
        outcome = action(row, by=BY, **values)
        if not outcome.is_good:
            raise CommandError(outcome.text)
        return outcome

    def answer(self, options: dict[str, Any], text: str, **facts: Any) -> None:
        """Print the text; with --json, the facts as well."""
        is_json = options.get("json", False)
        self.stdout.write(json.dumps({"text": text, **facts}, default=str) if is_json else text)


def row_named(model: type[Row], name: str) -> Row:
    row: Row | None = model._default_manager.filter(name=name).first()
    if row is None:
        known = ", ".join(model._default_manager.values_list("name", flat=True)) or "none"
        raise CommandError(f"There is no {model._meta.verbose_name} called {name}. Known names: {known}.")
    return row
