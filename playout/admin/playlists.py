"""The admin pages of playlists: the items in order, their times and warnings."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSingleDateWidget, UnfoldAdminTextInputWidget

from playout.lists.controls import copy
from playout.lists.list_timing import Plan, on_air_today, plan_of, rate_of, with_items
from playout.lists.reservations import ListChange, ListClash, new_clashes
from playout.models import Playlist, PlaylistItem
from playout.views.playlists import channels_in_form
from station.admin.base import ProjectRights, StationAdmin, VisibleFilter, named
from station.admin.buttons import Button, Operated
from station.admin.widgets import Searched
from station.clock import database_now
from station.clock.lengths import SecondsField
from station.rights import only_visible


class DayForm(BaseDialogForm):
    day = forms.DateField(widget=UnfoldAdminSingleDateWidget)


class ItemFormSet(BaseInlineFormSet):
    def clean(self) -> None:
        """Refuse live items whose device or port others have reserved, beside the item (P-15)."""
        super().clean()
        if any(self.errors):
            return
        forms = [form for form in self.forms if form.cleaned_data and not form.cleaned_data.get("DELETE")]
        forms.sort(key=lambda form: form.instance.position or 0)
        by_id = {id(form.instance): form for form in forms}
        by_pk = {form.instance.pk: form for form in forms if form.instance.pk}
        refusals = []
        for clash in new_clashes(self.instance, [form.instance for form in forms], database_now()):
            item = clash.window.item  # a copy, if it is on air now
            form = by_id.get(id(item)) or by_pk.get(item.pk)
            if form is not None:
                form.add_error("source", clash.in_words)
            else:
                refusals.append(clash.in_words)
        if refusals:
            raise ValidationError(refusals)


class ItemInline(ProjectRights, Searched, TabularInline):
    model = PlaylistItem
    formset = ItemFormSet
    fields = ["kind", "asset", "source", "title", "in_seconds", "out_seconds", "length_seconds"]
    # The position comes last: it is hidden, and unfold puts the drag handle into the first column.
    fields += ["start_time", "start", "max_late_seconds", "position"]
    autocomplete_fields = ["asset"]
    ordering_field = "position"
    hide_ordering_field = True
    extra = 0

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = named(super().get_formset(request, obj, **kwargs))
        if obj is not None and "position" in formset.form.base_fields:
            formset.form.base_fields["position"].initial = obj.items.count()  # a new row comes last
        rate = rate_of(channels_in_form(request, str(obj.pk) if obj else ""))
        for name in PlaylistItem.LENGTHS:
            if name in formset.form.base_fields:
                formset.form.base_fields[name].rate = rate
        return formset

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in PlaylistItem.LENGTHS:
            widget = UnfoldAdminTextInputWidget(attrs={"placeholder": "s, h:mm:ss, h:mm:ss:ff", "size": 9})
            return db_field.formfield(form_class=SecondsField, widget=widget)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only rows that the user may see."""
        related = db_field.remote_field.model
        permission = f"{related._meta.app_label}.view_{related._meta.model_name}"
        kwargs["queryset"] = only_visible(related._default_manager.all(), request.user, permission)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


def _plan(playlist: Playlist) -> Plan:
    """The plan, computed once for all columns of a row."""
    if not hasattr(playlist, "_planned"):
        playlist._planned = plan_of(playlist, timezone.now())  # type: ignore[attr-defined]
    return playlist._planned  # type: ignore[attr-defined,no-any-return]


@admin.register(Playlist)
class PlaylistAdmin(Operated, StationAdmin):
    list_display = ["name", "on", "channel", "project", "is_loop", "length_shown", "trouble_shown"]
    list_filter = [("channel", VisibleFilter), ("project", VisibleFilter), "is_loop"]
    list_select_related = ["channel", "project"]
    search_fields = ["name"]
    date_hierarchy = "on"
    inlines = [ItemInline]
    buttons = [
        Button(
            copy,
            "content_copy",
            "Copy this list to a day",
            "The same items, for that broadcast day.",
            submit="Copy",
            name="copy_list",
            path="copy",
            form=DayForm,
            goes_to_target=True,
        ),
    ]
    readonly_fields = ["times_shown"]
    fieldsets = [
        (None, {"fields": ["name", "project", "channel", "on", "is_loop"]}),
        ("Times", {"fields": ["times_shown"]}),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Playlist | None = None) -> Any:
        return self.fieldsets if obj else self.fieldsets[:1]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Playlist]:
        return with_items(super().get_queryset(request))

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """If a device is taken between the check and the saving, check again: the form shows it beside the item."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ListClash:  # raised out of the transaction, which is rolled back
            pass
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ListClash as clash:  # no check finds it: two channels of one node play this list
            messages.error(request, str(clash))
            return redirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Playlist, form: Any, change: bool) -> None:
        request.list_change = ListChange(obj if change else None, database_now())  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Playlist) -> None:
        change = ListChange(obj, database_now())
        super().delete_model(request, obj)
        change.finish(None)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        changes = [ListChange(each, database_now()) for each in queryset]
        super().delete_queryset(request, queryset)
        for change in changes:
            change.finish(None)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        request.list_change.finish(form.instance)  # type: ignore[attr-defined]
        if warning := on_air_today(form.instance, timezone.now()):
            messages.warning(request, warning)

    @display(description="Length")
    def length_shown(self, obj: Playlist) -> str:
        return _plan(obj).length

    @display(description="Warnings")
    def trouble_shown(self, obj: Playlist) -> str:
        return str(len(_plan(obj).warnings) or "–")

    @display(description="Times")
    def times_shown(self, obj: Playlist) -> SafeString:
        """The times, updated whenever the form changes, so that users see the effect before they save."""
        inner = render_to_string("playout/times.html", {"plan": plan_of(obj, timezone.now()), "playlist": obj})
        # The fragment is our own template's output, escaped there.
        return format_html(
            '<div hx-post="{}" hx-include="closest form" hx-trigger="{}">{}</div>',
            f"{reverse('playlist-times')}?playlist={obj.pk}",
            "change from:closest form delay:200ms, dragend from:closest form delay:400ms",
            mark_safe(inner),
        )
