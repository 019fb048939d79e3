"""Form widgets of our own."""

from collections.abc import Sequence
from typing import Any

from django.contrib.admin.widgets import AutocompleteSelect
from django.http import HttpRequest


class SearchSelect(AutocompleteSelect):
    """A field that searches while you type. Django's own raises when a refused form shows a bad value again."""

    def optgroups(self, name: str, value: Sequence[str], attr: dict[str, Any] | None = None) -> Any:
        return super().optgroups(name, [each for each in value if not each or str(each).isdecimal()], attr)


class Searched:
    """Mix into a ModelAdmin or an inline, before its base: its `autocomplete_fields` are such fields."""

    admin_site: Any

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):  # type: ignore[attr-defined]
            kwargs.setdefault("widget", SearchSelect(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]
