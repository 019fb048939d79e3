"""Base classes of all admin pages: rights per project, an audit trail, 404 for objects the user may not see."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ERROR_FLAG
from django.db import DataError, models
from django.forms import BaseInlineFormSet, ModelForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import display

from station import audit
from station.admin.widgets import Searched
from station.badges import state_badge
from station.models import Project
from station.rights import only_visible, projects_with
from station.states import Machine

SEE_AUDIT = "station.view_auditentry"


class ProjectRights:
    """Checks permissions per object; lists show only what the user may see (S-01)."""

    model: type[models.Model]
    opts: Any

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "view", obj) or self._may(request, "change", obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "change", obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "delete", obj)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "add", None)

    def _may(self, request: HttpRequest, verb: str, obj: Any) -> bool:
        permission = f"{self.opts.app_label}.{verb}_{self.opts.model_name}"
        if obj is not None and not isinstance(obj, models.Model):  # unfold passes the id
            obj = find(self.model._base_manager.all(), obj)
        if obj is not None and not isinstance(obj, self.model):  # for an inline, Django passes the parent
            return bool(request.user.has_perm(permission))
        return bool(request.user.has_perm(permission, obj))


class VisibleFilter(admin.RelatedFieldListFilter):
    """A filter by a related object that offers only objects the user may see."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[tuple[Any, Any]]:
        related = field.remote_field.model
        permission = f"{related._meta.app_label}.view_{related._meta.model_name}"
        rows = only_visible(related._default_manager.all(), request.user, permission)
        return [(row.pk, str(row)) for row in rows]


class Audited:
    """Writes an audit entry for everything a person saves or deletes."""

    model: Any

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        stored = self.model._base_manager.filter(pk=obj.pk).first() if change else None
        self.save_row(request, obj, form, change)
        sealed_changed = stored is not None and any(
            field.value_from_object(stored) != field.value_from_object(obj)
            for field in obj._meta.concrete_fields
            if field.name.endswith("_sealed") or field.name == "password"
        )
        audit.record(
            who(request),
            "change" if change else "add",
            obj,
            before=audit.values_of(stored) if stored else {},
            after=audit.values_of(obj),
            sealed_changed=sealed_changed,
        )

    def save_row(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)  # type: ignore[misc]

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        audit.record(who(request), "delete", obj, before=audit.values_of(obj))
        super().delete_model(request, obj)  # type: ignore[misc]

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        for obj in queryset:
            audit.record(who(request), "delete", obj, before=audit.values_of(obj))
        super().delete_queryset(request, queryset)  # type: ignore[misc]


class ForgivingList:
    """A list whose address may be wrong: cut, edited, or from an old bookmark."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Without its filters if the address asks for what no row can have, like a year 99999 or a zero byte."""
        try:
            answer: HttpResponse = super().changelist_view(request, extra_context)  # type: ignore[misc]
        except (DataError, OverflowError, ValueError):
            if request.method != "GET" or not request.GET or ERROR_FLAG in request.GET:
                raise
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")  # what Django does with an unknown filter
        return answer


class StationAdmin(ForgivingList, Audited, ProjectRights, Searched, ModelAdmin):
    """The base of every admin page of Airlock."""

    list_fullwidth = True
    list_per_page = 50
    warn_unsaved_form = True
    compressed_fields = True
    empty_value_display = "–"

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        permission = f"{self.opts.app_label}.view_{self.opts.model_name}"
        return only_visible(super().get_queryset(request), request.user, permission)

    @admin.display(description="")  # unfold draws the box in the heading itself
    def action_checkbox(self, obj: models.Model) -> SafeString:
        """As Django draws it. unfold's own carries 24 classes in each row."""
        box = '<input type="checkbox" name="{}" value="{}" class="action-select airlock-check" aria-label="Select {}">'
        return format_html(box, ACTION_CHECKBOX_NAME, obj.pk, obj)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only objects the user may use; the form refuses all others."""
        related = db_field.remote_field.model
        if "queryset" not in kwargs:
            view = f"{related._meta.app_label}.view_{related._meta.model_name}"
            own_change = f"{self.opts.app_label}.change_{self.opts.model_name}"
            if related is Project:
                kwargs["queryset"] = projects_with(request.user, own_change)
            else:
                kwargs["queryset"] = only_visible(related._default_manager.all(), request.user, view)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponseRedirect:
        raise Http404(f"There is no such {opts.verbose_name}.")

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The audit trail of the object. Django's own history knows only what was saved in forms, not the buttons."""
        row = find(self.get_queryset(request), object_id)
        if row is not None and self.has_view_permission(request, row) and request.user.has_perm(SEE_AUDIT):
            address = reverse("admin:station_auditentry_changelist")
            return HttpResponseRedirect(f"{address}?{urlencode({'subject': audit.subject_of(row)})}")
        answer: HttpResponse = super().history_view(request, object_id, extra_context)
        return answer

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        """A new row has no history."""
        inlines: list[Any] = super().get_inlines(request, obj)
        return [each for each in inlines if obj is not None or not issubclass(each, EventInline)]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Where no field can be changed, there is nothing to save: the buttons at the top are all there is."""
        tables = context["inline_admin_formsets"]
        if not context["adminform"].form.fields and not any(each.has_change_permission for each in tables):
            hidden = ("show_save", "show_save_and_continue", "show_save_and_add_another")
            context |= dict.fromkeys(hidden, False)
        return super().render_change_form(request, context, *args, **kwargs)

    def save_formset(self, request: HttpRequest, form: ModelForm, formset: BaseInlineFormSet, change: bool) -> None:
        super().save_formset(request, form, formset, change)
        for obj in formset.new_objects:
            audit.record(who(request), "add", obj, after=audit.values_of(obj))
        for obj, fields in formset.changed_objects:
            after = {name: value for name, value in audit.values_of(obj).items() if name in fields}
            audit.record(who(request), "change", obj, after=after)
        for obj in formset.deleted_objects:
            audit.record(who(request), "delete", obj, before=audit.values_of(obj))


class ReadOnlyRights:
    """Read-only: audit tables and rows that the loop writes."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnlyRights, StationAdmin):
    pass


class MachineAdmin(StationAdmin):
    """The page of a model with a state."""

    @display(description="State", ordering="state")
    def state_shown(self, obj: Machine) -> SafeString:
        return state_badge(obj)


class EventInline(ReadOnlyRights, TabularInline):
    """The history of state changes on a machine's page. Subclasses name the event model."""

    empty_value_display = "–"
    fields = ["at", "arrow", "by", "note"]
    readonly_fields = fields
    ordering = ["-at", "-id"]
    verbose_name_plural = "history"
    hide_title = True
    extra = 0
    max_num = 0
    per_page = 20

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # the right to see the page was already checked

    @display(description="Move")
    def arrow(self, obj: Any) -> str:
        machine = obj._meta.get_field("subject").related_model
        words = {state.value: state.label.lower() for state in machine.State}
        old, new = words.get(obj.old, obj.old), words.get(obj.new, obj.new)
        return new if obj.old in {"", obj.new} else f"{old} → {new}"


def named(formset: Any) -> Any:
    """Name each field of a table of forms for screen readers: there, only the column heads are visible labels."""
    for field in formset.form.base_fields.values():
        field.widget.attrs.setdefault("aria-label", str(field.label))
        inner = getattr(field.widget, "widget", None)  # Django wraps the widget of a foreign key
        if inner is not None:
            inner.attrs.setdefault("aria-label", str(field.label))
    return formset


def find(rows: models.QuerySet[Any], object_id: Any) -> Any:
    """The row with this ID from an address; None if there is none, or if it cannot be an ID."""
    try:
        return rows.filter(pk=object_id).first()
    except (TypeError, ValueError):
        return None


def who(request: HttpRequest) -> str:
    return str(request.user.get_username())


def dialog(title: str, description: str, submit: str) -> dict[str, Any]:
    """Options of a dialog. With one, unfold's actions are POST with CSRF; without one they run on GET (S-02)."""
    return {"title": title, "description": description, "form_submit_text": submit}


def redirect_after_dialog(url: str) -> HttpResponse:
    """Redirect the browser after a dialog: unfold's dialogs are htmx forms, so a plain redirect has no effect."""
    return HttpResponse(headers={"HX-Redirect": url})
