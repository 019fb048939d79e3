"""Store that an owner wants, or no longer wants, a media worker. This module only writes rows; reconcile acts."""

import secrets
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Max

from nodes.machines.node_clock import known_offset_seconds
from nodes.machines.placement import NodeFull
from nodes.models import Node, Workload
from nodes.models.workload import WorkloadQuerySet
from nodes.runtimes import installation
from nodes.runtimes.base import Identity, Launch
from nodes.workloads.supervision_policy import Supervision
from station.database.locks import Queue, queue_for
from station.models import Project
from station.sealing import seal, unseal
from worker.wire import codec
from worker.wire.configuration import Control, LaunchClock, write_handover

EVERYWHERE = "0.0.0.0"  # noqa: S104  (a media worker on another machine; its token protects it)


class NoControlPort(Exception):
    """Every control port of the node is in use."""


def latest(owner: str) -> Workload | None:
    """The newest generation in any state. `spec` can be long and is loaded only on access, as this is called often."""
    return Workload.objects.of(owner).select_related("node").defer("spec").first()


def want(  # noqa: PLR0913  (one row, one column each)
    owner: str,
    *,
    node: Node,
    program: str,
    spec: codec.Json,
    secret: codec.Json,
    now: datetime,
    project: Project | None = None,
    epoch: int = 0,
    supervision: Supervision | None = None,
) -> Workload:
    """The owner's live workload, or a new generation of it. Calling it twice has the effect of one call.

    `spec` and `secret` are the open and the sealed fields of its configuration (see `codec.split`).

    Raises NodeFull if the node has become full since it was chosen, or NoControlPort.
    """
    policy = supervision or Supervision()
    for _ in range(5):
        current = latest(owner)
        if current and current.is_wanted_and_live:
            return current
        generation = current.generation + 1 if current else 1
        try:
            with transaction.atomic():
                # Callers queue: in parallel they would choose the same port, or the same last place.
                queue_for(Queue.NODE, node.pk)
                most = Node.objects.values_list("max_workloads", flat=True).get(pk=node.pk)
                others = Workload.objects.live().filter(node=node).exclude(owner=owner).count()
                if others >= most:
                    raise NodeFull(f"{node.name}: already runs {others} of {most} workloads")
                # What it replaces may still run somewhere and may now be told to stop (P-14).
                replaced = Workload.objects.filter(owner=owner).exclude(state__in=Workload.live_states())
                _unwant(replaced, now=now, by=owner, note=f"replaced by generation {generation}")
                workload = Workload.objects.create(
                    owner=owner,
                    generation=generation,
                    project=project,
                    node=node,
                    name=workload_name(owner, generation),
                    program=program,
                    spec=spec,
                    secrets_sealed=seal({"config": secret, "token": secrets.token_urlsafe(32)}),
                    control_port=_free_control_port(node),
                    epoch=epoch,
                    poll_seconds=policy.poll_seconds,
                    silence_seconds=policy.silence_seconds,
                    is_fenced=policy.is_fenced,
                    memory_mb=policy.memory_mb,
                    state=Workload.State.REQUESTED,
                    state_since_at=now,
                    deadline_at=now + Workload.DEADLINES[Workload.State.REQUESTED],
                    created_at=now,
                )
                workload.events.create(at=now, old="", new=workload.state, by=owner, note=f"wanted on {node.name}")
            return workload
        except IntegrityError:
            continue  # another process took this generation or this port, or a lost one resumed: read again
    raise NoControlPort(f"No free control port was found on {node.name}.")


def unwant(owner: str, *, now: datetime, by: str, note: str = "") -> int:
    """Mark all workloads of this owner as no longer wanted."""
    return _unwant(Workload.objects.filter(owner=owner), now=now, by=by, note=note)


def _unwant(rows: WorkloadQuerySet, *, now: datetime, by: str, note: str) -> int:
    count = 0
    for workload in rows.filter(is_wanted=True):
        with transaction.atomic():
            if Workload.objects.filter(pk=workload.pk, is_wanted=True).update(is_wanted=False):
                workload.refresh_from_db(fields=["state"])
                workload.remark(f"no longer wanted{': ' + note if note else ''}", now=now, by=by)
                count += 1
    return count


def set_end(owner: str, ends_at: datetime) -> None:
    """Store when the media worker must end by itself. Reconcile sends it to a media worker with another end."""
    for workload in Workload.objects.live().filter(owner=owner, is_wanted=True):
        spec = {**workload.spec, "ends_at": codec.encode(ends_at)}
        Workload.objects.filter(pk=workload.pk).update(spec=spec)


def workload_name(owner: str, generation: int) -> str:
    """Deterministic, so that a repeated start finds the first container by its name."""
    return f"airlock-{installation()[:8]}-{owner.replace(':', '-')}-g{generation}"


def launch_of(workload: Workload, now: datetime) -> Launch:
    """Everything a runtime needs to start it now. The secrets are decrypted only here."""
    opened = unseal(workload.secrets_sealed)
    address = workload.node.parsed_address
    control = Control(
        owner=workload.owner,
        generation=workload.generation,
        token=opened["token"],
        host="127.0.0.1" if address.is_local and workload.node.network == "host" else EVERYWHERE,
        port=workload.control_port,
    )
    return Launch(
        name=workload.name,
        identity=Identity(installation(), workload.owner, workload.generation, workload.epoch),
        program=workload.program,
        config=write_handover(
            control,
            {**workload.spec, **opened.get("config", {})},
            LaunchClock(now, known_offset_seconds(workload.node)),
        ),
        devices=tuple(workload.spec.get("devices", ())),
        control_port=workload.control_port,
        memory_mb=workload.memory_mb,
    )


def token_of(workload: Workload) -> str:
    token: str = unseal(workload.secrets_sealed)["token"]
    return token


def _free_control_port(node: Node) -> int:
    """The next free port of the node's range, starting again at its end; the database refuses one in use."""
    used = set(Workload.objects.live().filter(node=node).values_list("control_port", flat=True))
    newest = Workload.objects.filter(node=node).aggregate(newest=Max("id"))["newest"]
    last = Workload.objects.filter(pk=newest).values_list("control_port", flat=True).first() if newest else None
    first, count = node.control_port_from, node.control_port_count
    offset = (last - first + 1) if last is not None else 0
    for step in range(count):
        port = first + (offset + step) % count
        if port not in used:
            return port
    raise NoControlPort(f"All {count} control ports of {node.name} are in use.")
