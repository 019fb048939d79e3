"""Admin of nodes: address, disk space, state; check, drain and undrain."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from nodes.machines import node_controls
from nodes.machines.placement import MEGABYTE
from nodes.models import Node, NodeEvent, Workload
from station.admin.base import EventInline, MachineAdmin
from station.admin.buttons import BulkAction, Operated
from station.badges import badge


class NodeEventInline(EventInline):
    model = NodeEvent


@admin.register(Node)
class NodeAdmin(Operated, MachineAdmin):
    list_display = ["name", "state_shown", "drain_shown", "address", "labels", "room", "engine_version", "last_seen_at"]
    list_filter = ["state", "is_draining"]
    search_fields = ["name", "address", "labels"]
    inlines = [NodeEventInline]
    bulk_actions = [
        BulkAction(node_controls.check, "fine"),
        BulkAction(node_controls.drain, "draining"),
        BulkAction(node_controls.undrain, "open"),
    ]
    readonly_fields = ["state_shown", "engine_version", "room", "last_seen_at", "last_error"]
    fieldsets = [
        (None, {"fields": ["name", "address", "media_dir", "seen_dir", "labels", "max_workloads", "is_draining"]}),
        ("Media worker", {"fields": ["control_host", "control_port_from", "control_port_count", "network"]}),
        ("Observed", {"fields": ["state_shown", "engine_version", "room", "last_seen_at", "last_error"]}),
    ]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A node with workloads is drained instead, so that its history stays."""
        if obj is not None and Workload.objects.filter(node=obj).exists():
            return False
        return super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        # The machine that checks a process node next becomes its home: this is how to move one to another machine.
        Node.objects.filter(pk=obj.pk).update(process_home="")

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

    @display(description="Disk space", ordering="free_bytes")
    def room(self, obj: Node) -> str:
        if obj.free_bytes is None:
            return "–"
        short = " (too little)" if obj.free_bytes < settings.MIN_FREE_DISK_MB * MEGABYTE else ""
        return f"{obj.free_bytes / 1e9:.1f} of {(obj.total_bytes or 0) / 1e9:.1f} GB free{short}"
