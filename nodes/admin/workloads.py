"""Admin of workloads: what runs where, what is wanted, and how each one ended. Read-only."""

import json

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.decorators import display

from nodes.models import Workload, WorkloadEvent
from nodes.models.workload import WORKLOAD_WORDS
from station.admin.base import EventInline, MachineAdmin, ReadOnlyRights, VisibleFilter
from station.admin.search import WordSearch
from station.admin.subjects import link_to
from station.badges import badge, trace


class WorkloadEventInline(EventInline):
    model = WorkloadEvent


@admin.register(Workload)
class WorkloadAdmin(WordSearch, ReadOnlyRights, MachineAdmin):
    list_display = ["name", "state_shown", "wanted_shown", "node", "created_at", "heartbeat_at", "exit_reason", "error"]
    list_filter = ["state", "node", "program", ("project", VisibleFilter)]
    list_select_related = ["node"]
    search_words = WORKLOAD_WORDS
    inlines = [WorkloadEventInline]
    fields = ["name", "state_shown", "wanted_shown", "node", "program", "owner_shown", "generation", "control_port"]
    fields += ["created_at", "started_at", "heartbeat_at", "deadline_at", "removed_at", "exit_code", "exit_reason"]
    fields += ["error", "progress_shown", "log_shown"]
    readonly_fields = fields

    @display(description="Wanted", ordering="is_wanted")
    def wanted_shown(self, obj: Workload) -> SafeString:
        return badge("wanted", "blue") if obj.is_wanted else badge("not wanted", "grey")

    @display(description="Owner")
    def owner_shown(self, obj: Workload) -> SafeString | str:
        return link_to(obj.owner)

    @display(description="Progress")
    def progress_shown(self, obj: Workload) -> SafeString | str:
        return trace(json.dumps(obj.progress, indent=1, ensure_ascii=False)) if obj.progress else "–"

    @display(description="Last lines of its log")
    def log_shown(self, obj: Workload) -> SafeString | str:
        return trace(obj.log_tail) if obj.log_tail else "–"
