"""Admin pages of nodes, ports, reservations and workloads."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from nodes.machines import health
from nodes.machines.node_controls import forget_alerts, set_draining
from nodes.machines.placement import MEGABYTE
from nodes.models import Node, NodeEvent, Port, Reservation, Workload, WorkloadEvent
from station.admin.base import (
    EventInline,
    MachineAdmin,
    ReadOnlyAdmin,
    ReadOnlyRights,
    StationAdmin,
    VisibleFilter,
    report,
    who,
)
from station.badges import badge


class NodeEventInline(EventInline):
    model = NodeEvent


class WorkloadEventInline(EventInline):
    model = WorkloadEvent


@admin.register(Node)
class NodeAdmin(MachineAdmin):
    list_display = ["name", "state_shown", "drain_shown", "address", "labels", "room", "engine_version", "last_seen_at"]
    list_filter = ["state", "is_draining"]
    search_fields = ["name", "address", "labels"]
    inlines = [NodeEventInline]
    actions = ["check_selected", "drain_selected", "undrain_selected"]
    readonly_fields = ["state_shown", "engine_version", "room", "last_seen_at", "last_error"]
    fieldsets = [
        (None, {"fields": ["name", "address", "media_dir", "seen_dir", "labels", "max_workloads", "is_draining"]}),
        ("Worker", {"fields": ["control_host", "control_port_from", "control_port_count", "network"]}),
        ("Seen", {"fields": ["state_shown", "engine_version", "room", "last_seen_at", "last_error"]}),
    ]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A node that has worked keeps its history: it is drained, not deleted."""
        if obj is not None and Workload.objects.filter(node=obj).exists():
            return False
        return super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        # Whoever checks a process node next takes it as its own: the way to move one.
        Node.objects.filter(pk=obj.pk).update(process_home="")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        forget_alerts(obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for node in queryset:
            forget_alerts(node)
        super().delete_queryset(request, queryset)

    @display(description="Work", ordering="is_draining")
    def drain_shown(self, obj: Node) -> SafeString:
        return badge("draining", "amber") if obj.is_draining else badge("open", "green")

    @display(description="Room", ordering="free_bytes")
    def room(self, obj: Node) -> str:
        if obj.free_bytes is None:
            return "–"
        short = " (too little)" if obj.free_bytes < settings.MIN_FREE_DISK_MB * MEGABYTE else ""
        return f"{obj.free_bytes / 1e9:.1f} of {(obj.total_bytes or 0) / 1e9:.1f} GB free{short}"

    @admin.action(description="Check now", permissions=["change"])
    def check_selected(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        def act(node: Node) -> tuple[bool, str]:
            answered = health.check(node)
            node.refresh_from_db()
            return answered and not node.last_error, node.last_error

        report(request, queryset, act, "fine", "in trouble")

    @admin.action(description="Drain: no new work", permissions=["change"])
    def drain_selected(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        report(request, queryset, lambda node: set_draining(node, True, who(request)), "draining")

    @admin.action(description="Open for work again", permissions=["change"])
    def undrain_selected(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        report(request, queryset, lambda node: set_draining(node, False, who(request)), "open")


@admin.register(Port)
class PortAdmin(StationAdmin):
    list_display = ["node", "kind", "number", "note"]
    list_filter = ["node", "kind"]
    search_fields = ["note", "number"]


@admin.register(Reservation)
class ReservationAdmin(ReadOnlyAdmin):
    list_display = ["port", "holder", "starts_at", "ends_at", "released_at"]
    list_filter = ["port__node", "port__kind"]
    search_fields = ["holder", "owner"]


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyRights, MachineAdmin):
    list_display = ["name", "state_shown", "wanted_shown", "node", "created_at", "heartbeat_at", "exit_reason", "error"]
    list_filter = ["state", "node", "program", ("project", VisibleFilter)]
    search_fields = ["name", "owner"]
    inlines = [WorkloadEventInline]
    fields = ["name", "state_shown", "wanted_shown", "node", "program", "owner", "generation", "control_port"]
    fields += ["created_at", "started_at", "heartbeat_at", "deadline_at", "removed_at", "exit_code", "exit_reason"]
    fields += ["error", "progress", "log_tail"]
    readonly_fields = fields

    @display(description="Wanted", ordering="is_wanted")
    def wanted_shown(self, obj: Workload) -> SafeString:
        return badge("wanted", "blue") if obj.is_wanted else badge("not wanted", "grey")
