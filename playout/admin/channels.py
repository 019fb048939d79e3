"""The admin pages of channels: the item on air, buttons, outputs and recoveries."""

from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.forms import BaseInlineFormSet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.admin import TabularInline
from unfold.decorators import display

from playout.admin.buttons import BUTTONS
from playout.channels.outputs import EXAMPLES, ONLY_ONE, TWICE
from playout.lists.broadcast_days import day_of
from playout.lists.reservations import settle, watch_soon
from playout.models import Channel, ChannelEvent, ChannelOutput, Recovery
from playout.views.channels import now_context
from station.admin.base import (
    EventInline,
    MachineAdmin,
    ProjectRights,
    ReadOnlyRights,
    VisibleFilter,
    named,
)
from station.admin.buttons import Operated
from station.clock import database_now

State = Channel.State
DAYS_SHOWN = 7


class OutputFormSet(BaseInlineFormSet):
    def clean(self) -> None:
        """Find duplicates among new outputs, which the database constraint cannot see yet, and a second monitor."""
        super().clean()
        seen: set[tuple[str, str]] = set()
        is_monitored = False
        for form in self.forms:
            data = form.cleaned_data if hasattr(form, "cleaned_data") else {}
            pair = (data.get("type", ""), str(data.get("address", "")).strip())
            if data.get("DELETE"):
                continue
            if data.get("monitored_at") and data.get("is_active"):
                if is_monitored:
                    form.add_error("monitored_at", "Another output of this channel is monitored already.")
                is_monitored = True
            if pair[0] not in ONLY_ONE:
                continue
            if pair in seen:
                form.add_error("address", f"{TWICE}.")
            seen.add(pair)


class OutputInline(ProjectRights, TabularInline):
    model = ChannelOutput
    formset = OutputFormSet
    fields = ["type", "address", "constant_bitrate", "monitored_at", "is_active"]
    extra = 0

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = named(super().get_formset(request, obj, **kwargs))
        if "address" in formset.form.base_fields:
            examples = "; ".join(f"{kind.label}: {text}" for kind, text in EXAMPLES.items())
            formset.form.base_fields["address"].help_text = f"Secrets are sealed when you save. {examples}."
        return formset


class RecoveryInline(ReadOnlyRights, TabularInline):
    model = Recovery
    fields = ["noticed_at", "kind", "from_node", "to_node", "off_air_seconds", "reason", "by"]
    readonly_fields = fields
    verbose_name_plural = "restarts and moves"
    hide_title = True
    extra = 0
    max_num = 0
    per_page = 20

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # the user may see the channel's page


class ChannelEventInline(EventInline):
    model = ChannelEvent


@admin.register(Channel)
class ChannelAdmin(Operated, MachineAdmin):
    buttons = BUTTONS
    list_display = ["name", "state_shown", "project", "playlist", "picture", "node_shown", "restart_count"]
    list_filter = ["state", ("project", VisibleFilter)]
    list_select_related = ["project", "playlist", "node"]
    search_fields = ["name"]
    autocomplete_fields = ["filler"]
    readonly_fields = ["now", "papers"]
    inlines = [OutputInline, RecoveryInline, ChannelEventInline]
    fieldsets = [
        ("Now", {"fields": ["now"]}),
        (None, {"fields": ["name", "project", "playlist", "filler"]}),
        ("Picture and sound", {"fields": ["picture", "fit", "video_bitrate", "loudness_lufs", "slate", "pause"]}),
        ("Where", {"fields": ["node", "node_labels", "isolation_seconds"]}),
        ("As-run and guide", {"fields": ["papers"]}),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Channel | None = None) -> Any:
        return self.fieldsets if obj else self.fieldsets[1:-1]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A channel that was on air keeps its as-run log, so it cannot be deleted."""
        if isinstance(obj, Channel) and (obj.asrun.exists() or obj.state != State.OFF_AIR):
            return False
        return super().has_delete_permission(request, obj)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Only list changes reach a running media worker; say so if other settings changed."""
        super().save_related(request, form, formsets, change)
        for clash in settle(form.instance, database_now())[:5]:
            messages.warning(request, clash.in_words)
        watch_soon([form.instance], database_now())
        names = {name for name in form.changed_data if name not in {"name", "project", "playlist"}}
        if form.instance.is_wanted and (names or any(each.has_changed() for each in formsets)):
            messages.info(request, "The channel is still running its old settings. Restart or move it to apply this.")

    @display(description="Node")
    def node_shown(self, obj: Channel) -> str:
        return str(obj.node or obj.node_labels or "any")

    @display(description="Now")
    def now(self, obj: Channel) -> SafeString:
        inner = render_to_string("playout/channel_now.html", now_context(obj))
        # The fragments are our own templates' output, escaped there.
        fragment = format_html(
            '<div hx-get="{}" hx-trigger="every 2s" hx-swap="innerHTML">{}</div>',
            reverse("channel-now", args=[obj.pk]),
            mark_safe(inner),
        )
        watch = render_to_string("playout/channel_watch.html", {"channel": obj})
        return format_html("{}{}", fragment, mark_safe(watch))

    @display(description="Exports")
    def papers(self, obj: Channel) -> SafeString:
        today = day_of(timezone.now())
        days = [today - timedelta(days=number) for number in range(DAYS_SHOWN)]
        return mark_safe(render_to_string("playout/channel_papers.html", {"channel": obj, "days": days}))
