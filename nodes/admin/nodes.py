"""Admin of nodes: address, disk space, state; check, drain and undrain."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.enums import ActionVariant

from nodes.admin.node_form import NodeForm
from nodes.machines import node_controls
from nodes.machines.node_clock import stored_offset
from nodes.machines.placement import MEGABYTE
from nodes.models import Node, NodeEvent, Workload
from station.admin.base import EventInline, MachineAdmin
from station.admin.buttons import BulkAction, Button, Operated
from station.badges import badge


class NodeEventInline(EventInline):
    model = NodeEvent


@admin.register(Node)
class NodeAdmin(Operated, MachineAdmin):
    form = NodeForm
    list_display = ["name", "state_shown", "drain_shown", "address", "labels", "room", "clock_shown", "engine_version"]
    list_display += ["last_seen_at"]
    list_filter = ["state", "is_draining"]
    search_fields = ["name", "address", "labels"]
    inlines = [NodeEventInline]
    bulk_actions = [
        BulkAction(node_controls.check, "fine"),
        BulkAction(node_controls.drain, "draining"),
        BulkAction(node_controls.undrain, "open"),
    ]
    buttons = [
        Button(
            node_controls.give_up,
            icon="link_off",
            question="Give up what ran there?",
            means="Only for a machine that is gone for good, or to move a process node to another machine. Airlock "
            "forgets the media workers of this node and replaces those that are still needed. It stops nothing: make "
            "sure that the machine is off.",
            variant=ActionVariant.DANGER,
        )
    ]
    readonly_fields = ["state_shown", "engine_version", "room", "clock_shown", "home", "last_seen_at", "last_error"]
    fieldsets = [
        (None, {"fields": ["name", "address", "media_dir", "seen_dir", "labels", "max_workloads", "is_draining"]}),
        ("Media worker", {"fields": ["control_host", "control_port_from", "control_port_count", "network"]}),
        ("Observed", {"fields": readonly_fields}),
    ]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A node with workloads is drained instead, so that its history stays."""
        if obj is not None and Workload.objects.filter(node=obj).exists():
            return False
        return super().has_delete_permission(request, obj)

    def save_row(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write what the person changed and nothing else: the scheduler and other people write this row too."""
        if not change:
            super().save_row(request, obj, form, change)
            return
        obj.save(update_fields=form.changed_data)
        if "address" in form.changed_data:  # another engine: whoever checks it first, at once, is its home
            Node.objects.filter(pk=obj.pk).update(process_home="")
        old = settings.NODE_KEYS_DIR / str(form.initial["name"])
        if "name" in form.changed_data and old.is_dir():
            folder = settings.NODE_KEYS_DIR / obj.name
            messages.warning(request, f"Rename its folder of keys on every machine: {old} to {folder}.")
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        node_controls.forget_alerts(obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for node in queryset:
            node_controls.forget_alerts(node)
        super().delete_queryset(request, queryset)

    @display(description="Work", ordering="is_draining")
    def drain_shown(self, obj: Node) -> SafeString:
        return badge("draining", "amber") if obj.is_draining else badge("open", "green")

    @display(description="Clock", ordering="clock_offset_seconds")
    def clock_shown(self, obj: Node) -> str:
        offset = stored_offset(obj)
        if offset is None:
            return "–"
        wrong = " (wrong)" if offset.is_over(settings.NODE_CLOCK_ALERT_SECONDS) else ""
        return f"{offset.seconds:+.2f} s (± {max(0.01, offset.uncertainty_seconds):.2f} s){wrong}"

    @display(description="Managed by")
    def home(self, obj: Node) -> str:
        if obj.is_in_container:
            return (
                f"{obj.process_home}. Its recordings and channels end with this container: use a Docker node instead."
            )
        return obj.process_home or "any scheduler"

    @display(description="Disk space", ordering="free_bytes")
    def room(self, obj: Node) -> str:
        if obj.free_bytes is None:
            return "–"
        short = " (too little)" if obj.free_bytes < settings.MIN_FREE_DISK_MB * MEGABYTE else ""
        return f"{obj.free_bytes / 1e9:.1f} of {(obj.total_bytes or 0) / 1e9:.1f} GB free{short}"
