"""Buttons of the admin: each one carries out an Action, by POST from a dialog, and shows the text of its Outcome.

A page lists its `buttons`, its `row_buttons` (in the list) and its `bulk_actions` (for many rows). A button is shown
only where the Action is possible and permitted. Pressed on an outdated page, it is refused with the reason. Objects
that the user may not see are not found (S-01), and GET only opens the dialog (S-02).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action as unfold_action
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm

from station.actions import Action, Outcome
from station.admin.base import dialog, find, redirect_after_dialog, who

SHOWN_REASONS = 5
NO_PERMISSION = "you don't have permission"


@dataclass(frozen=True)
class Button:
    """An Action as a page shows it. `name` is the name of its method and URL."""

    action: Action
    icon: str
    question: str
    means: str  # what will happen, below the question
    submit: str = ""  # empty: the label
    label: str = ""  # empty: the action's
    name: str = ""  # empty: the action's
    path: str = ""  # the end of its URL; empty: the name with dashes
    form: type[BaseDialogForm] | None = None
    variant: ActionVariant = ActionVariant.DEFAULT
    values: Mapping[str, Any] = field(default_factory=dict)  # passed to the action, in addition to the form's values
    from_request: Callable[[HttpRequest], Mapping[str, Any]] | None = None  # the same, from the request
    goes_to_target: bool = False  # then show the page of the object it made

    @property
    def method_name(self) -> str:
        return self.name or self.action.name.replace(" ", "_")

    @property
    def description(self) -> str:
        return self.label or self.action.label

    @property
    def dialog(self) -> dict[str, Any]:
        asked = dialog(self.question, self.means, self.submit or self.description)
        return {**asked, "form_class": self.form} if self.form else asked


@dataclass(frozen=True)
class BulkAction:
    """An Action on many rows: "3 paused, 1 skipped (News: already paused)"."""

    action: Action
    done: str
    label: str = ""
    left: str = "skipped"
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method_name(self) -> str:
        return f"{self.action.name.replace(' ', '_')}_selected"


class Operated:
    """Mix into a ModelAdmin, before its base."""

    buttons: ClassVar[Sequence[Button]] = ()
    row_buttons: ClassVar[Sequence[Button]] = ()
    bulk_actions: ClassVar[Sequence[BulkAction]] = ()
    model: Any
    opts: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for button in cls.buttons:
            setattr(cls, button.method_name, _press(button, is_in_list=False))
        for button in cls.row_buttons:
            setattr(cls, button.method_name, _press(button, is_in_list=True))
        for bulk in cls.bulk_actions:
            setattr(cls, bulk.method_name, _on_many(bulk))
            setattr(cls, f"has_{bulk.method_name}_permission", _may(bulk.action))
        page: Any = cls
        page.actions_detail = [*(button.method_name for button in cls.buttons), *cls.__dict__.get("actions_detail", [])]
        page.actions_row = [button.method_name for button in cls.row_buttons]
        page.actions = [*(bulk.method_name for bulk in cls.bulk_actions), *cls.__dict__.get("actions", [])]

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Show only buttons that would work now."""
        found = super().get_actions_detail(request, object_id)  # type: ignore[misc]
        row = find(self.get_queryset(request), object_id)  # type: ignore[attr-defined]
        shown = {
            f"{self.opts.app_label}_{self.opts.model_name}_{button.method_name}": row is not None
            and button.action.may(request.user, row)
            and button.action.is_possible(row)
            for button in self.buttons
        }
        return [each for each in found if shown.get(each.action_name, True)]

    def get_actions_row(self, request: HttpRequest) -> list[Any]:
        """Hide buttons that the user may press on no row at all."""
        found = super().get_actions_row(request)  # type: ignore[misc]
        return [each for each, button in zip(found, self.row_buttons, strict=True) if button.action.may(request.user)]

    def pressed_on(self, request: HttpRequest, button: Button, object_id: Any) -> Any:
        """The row it was pressed on: 404 if the user may not see it, 403 if the user may not do this."""
        row = find(self.get_queryset(request), object_id)  # type: ignore[attr-defined]
        if row is None:
            raise Http404(f"There is no such {self.opts.verbose_name}.")
        if not button.action.may(request.user, row):
            raise PermissionDenied
        return row

    def carry_out(self, request: HttpRequest, button: Button, row: Any, asked: Mapping[str, Any]) -> Outcome:
        given = button.from_request(request) if button.from_request else {}
        outcome = button.action(row, by=who(request), **{**button.values, **given, **asked})
        self.tell(request, row, outcome)
        return outcome

    def tell(self, request: HttpRequest, row: Any, outcome: Outcome) -> None:
        """Show the outcome's text, with a link to its target."""
        level = messages.SUCCESS if outcome.is_good else messages.WARNING
        messages.add_message(request, level, self.sentence(request, row, outcome))

    def sentence(self, request: HttpRequest, row: Any, outcome: Outcome) -> str | SafeString:
        text: str | SafeString = outcome.text
        if outcome.shown_once:
            text = format_html("{} <code>{}</code>", text, outcome.shown_once)
        url = page_of(request, outcome.target) if outcome.target not in {None, row} else ""
        if outcome.target is not None and url:
            label = f"{str(outcome.target._meta.verbose_name).capitalize()} {outcome.target.pk}"
            text = format_html('{} <a class="underline" href="{}">{}</a>', text, url, label)
        return text


def page_of(request: HttpRequest, row: models.Model | None) -> str:
    """The change page of a row, or nothing if it has none or the user may not see it."""
    if row is None:
        return ""
    meta = row._meta
    if not request.user.has_perm(f"{meta.app_label}.view_{meta.model_name}", row):
        return ""
    try:
        return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[row.pk])
    except NoReverseMatch:
        return ""


def report(request: HttpRequest, rows: Iterable[Any], bulk: BulkAction) -> None:
    """Carry it out on each row and show one summary."""
    good = 0
    left, odd = list[str](), list[str]()
    for row in rows:
        if not bulk.action.may(request.user, row):
            left.append(f"{row}: {NO_PERMISSION}")
            continue
        outcome = bulk.action(row, by=who(request), **bulk.values)
        if outcome.is_good:
            good += 1
        else:
            (odd if outcome.is_done else left).append(f"{row}: {outcome.reason or outcome.text}")
    words = [f"{good} {bulk.done}"]
    words += [f"{len(odd)} to check ({_first(odd)})"] if odd else []
    words += [f"{len(left)} {bulk.left} ({_first(left)})"] if left else []
    messages.add_message(request, messages.WARNING if left or odd else messages.SUCCESS, ", ".join(words))


def _first(reasons: list[str]) -> str:
    """The first few, and how many more there are."""
    more = len(reasons) - SHOWN_REASONS
    return "; ".join(reasons[:SHOWN_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _press(button: Button, *, is_in_list: bool) -> Any:
    """The method that unfold calls: it checks the rights, shows the dialog, then carries out the action."""

    def confirmed(self: Any, request: HttpRequest, form: Any, object_id: Any) -> HttpResponse:
        row = self.pressed_on(request, button, object_id)
        asked = {name: value for name, value in form.cleaned_data.items() if not name.startswith("_")}
        outcome = self.carry_out(request, button, row, asked)
        target = outcome.target if button.goes_to_target and outcome.is_done else None
        names = f"admin:{self.opts.app_label}_{self.opts.model_name}"
        here = reverse(f"{names}_changelist") if is_in_list else reverse(f"{names}_change", args=[object_id])
        return redirect_after_dialog(page_of(request, target) or here)

    confirmed.__name__ = button.method_name  # unfold finds actions by this name
    asking = unfold_action(
        description=button.description,
        icon=button.icon,
        url_path=button.path or button.method_name.replace("_", "-"),
        variant=button.variant,
        dialog=button.dialog,
    )(confirmed)

    @wraps(asking)
    def press(self: Any, request: HttpRequest, object_id: Any) -> HttpResponse:
        self.pressed_on(request, button, object_id)  # the dialog's choices need the right, too
        answer: HttpResponse = asking(self, request, object_id=object_id)
        return answer

    return press


def _on_many(bulk: BulkAction) -> Any:
    def act(self: Any, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        report(request, queryset, bulk)

    act.__name__ = bulk.method_name
    return admin.action(description=bulk.label or bulk.action.label, permissions=[bulk.method_name])(act)


def _may(action: Action) -> Any:
    def has_permission(self: Any, request: HttpRequest, obj: Any = None) -> bool:
        return action.may(request.user, obj)

    return has_permission
