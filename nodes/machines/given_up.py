"""Rows of media workers that this installation gives up: nothing is stopped, the rows only stop counting."""

from datetime import datetime

from django.db import transaction

from nodes.models import Node, Workload
from nodes.models.workload import WorkloadQuerySet


def give_up(rows: WorkloadQuerySet, reason: str, note: str, *, now: datetime, by: str) -> list[Workload]:
    """End these rows without touching what they stand for; their owners react as to any other end."""
    with transaction.atomic():
        given_up = list(rows.to_look_at().select_for_update(no_key=True).order_by("pk"))
        for workload in given_up:
            if workload.is_over:
                workload.remark(note, now=now, by=by)
            else:
                workload.move(Workload.State.EXITED, now=now, by=by, note=note, exit_reason=reason, error=note)
        rows.filter(pk__in=[workload.pk for workload in given_up]).update(removed_at=now)
    return given_up


def give_up_copied(now: datetime, by: str) -> tuple[int, int]:
    """After a copied database became a new installation. Returns the numbers of workloads and of drained nodes.

    The original's media workers would accept our commands: the copy has their tokens. And what the original records
    and plays, the copy would record and play a second time, on the same outputs.
    """
    with transaction.atomic():
        note = "the database was copied; this media worker belongs to the original"
        count = len(give_up(Workload.objects.all(), "copied", note, now=now, by=by))
        Workload.objects.update(is_wanted=False, secrets_sealed="")
        Node.objects.update(process_home="")
        nodes = list(Node.objects.filter(is_draining=False).select_for_update(no_key=True))
        for node in nodes:
            node.remark("draining: the database was copied", now=now, by=by)
        Node.objects.filter(pk__in=[node.pk for node in nodes]).update(is_draining=True)
    return count, len(nodes)
