"""Buttons that are there only where they would work: which states allow them, who may press them, what is told after.

An admin page names its actions in `possible` (action -> states, or a function of the row) and one permission. For
every name there is then a `has_<name>_permission`, which unfold asks before it shows or runs the button; the page's own
methods only say what each one does.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse

from station import audit
from station.admin.base import redirect_after_dialog, report, who

# What it did, in words; or that it did nothing, and why.
Act = Callable[[Any], tuple[bool, str]]
Rule = Collection[str] | Callable[[Any], bool]


class Operated:
    """Mix into a MachineAdmin."""

    possible: ClassVar[Mapping[str, Rule]] = {}
    operate_permission: ClassVar[str] = ""
    model: Any
    opts: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.possible:
            setattr(cls, f"has_{name}_permission", _asks(name))

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(self.operate_permission, self.row(request, obj)))

    def row(self, request: HttpRequest, obj: Any) -> Any:
        """unfold hands over the id, Django the object."""
        if obj is None or isinstance(obj, self.model):
            return obj
        return self.get_queryset(request).filter(pk=obj).first()  # type: ignore[attr-defined]

    def is_possible(self, row: Any, what: str) -> bool:
        rule = self.possible[what]
        return rule(row) if callable(rule) else row.state in rule

    def can(self, request: HttpRequest, obj: Any, what: str) -> bool:
        row = self.row(request, obj)
        if row is None and obj is not None:
            raise Http404(f"There is no such {self.opts.verbose_name}.")  # S-01: foreign, or not there at all
        return row is not None and self.is_possible(row, what) and self.has_operate_permission(request, row)

    def do(self, request: HttpRequest, object_id: int, what: str, act: Act) -> HttpResponse:
        """One action on one row; a refusal is told, not raised, and what was done is on record (S-02)."""
        row = get_object_or_404(self.get_queryset(request), pk=object_id)  # type: ignore[attr-defined]
        is_good, text = self.attempt(request, row, what, act)
        if is_good:
            messages.success(request, f"{row}: {text}")
        else:
            messages.warning(request, f"{row}: nothing was done, {text.rstrip('.')}.")
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return redirect_after_dialog(reverse(name, args=[object_id]))

    def do_all(self, request: HttpRequest, rows: QuerySet[Any], what: str, act: Act, done: str) -> None:
        """The same for many: "3 delivered again, 1 left as it is (…)"."""
        report(request, rows, lambda row: self.attempt(request, row, what, act), done, "left as they are")

    def attempt(self, request: HttpRequest, row: Any, what: str, act: Act) -> tuple[bool, str]:
        if not self.has_operate_permission(request, row):
            return False, "it is not yours to do"
        if not self.is_possible(row, what):
            return False, f"it is {row.state_word}"
        before = row.state
        is_good, text = act(row)
        if is_good:
            audit.record(
                who(request), what.replace("_", " "), row, before={"state": before}, after={"state": row.state}
            )
        return is_good, text


def _asks(name: str) -> Callable[[Operated, HttpRequest, Any], bool]:
    def has_permission(self: Operated, request: HttpRequest, obj: Any = None) -> bool:
        return self.can(request, obj, name)

    return has_permission
