"""Port reservations: one holder at a time, enforced by the database; a refusal names the holder (R-14)."""

from datetime import datetime

from django.db import IntegrityError, transaction

from nodes.models import Node, Port, Reservation
from station.clock import house_time
from station.models import Project


class PortTaken(Exception):
    """Another owner holds the port at that time; the text names the holder and the end."""

    def __init__(self, port: Port, winner: Reservation | None) -> None:
        self.port, self.winner = port, winner
        if winner is None:
            super().__init__(f"{port} was taken a moment ago.")
            return
        until = f"until {house_time(winner.ends_at)}" if winner.ends_at else "until it is released"
        super().__init__(f"{port} is held by {winner.holder} from {house_time(winner.starts_at)} {until}.")


def port_of(node: Node, kind: str, number: int) -> Port:
    """The port's row, created on first use."""
    return Port.objects.get_or_create(node=node, kind=kind, number=number)[0]


def reserve(
    port: Port,
    *,
    owner: str,
    holder: str,
    starts_at: datetime,
    ends_at: datetime | None,
    project: Project | None = None,
) -> Reservation:
    """Reserve the port, or raise PortTaken. If the same owner holds it already, change the times."""
    own = Reservation.objects.standing().filter(port=port, owner=owner).first()
    try:
        with transaction.atomic():
            # The lock makes writers queue: inserts that wait for each other at the exclusion constraint deadlock.
            Port.objects.select_for_update(no_key=True).get(pk=port.pk)
            if own:
                own.starts_at, own.ends_at = starts_at, ends_at
                own.save(update_fields=["starts_at", "ends_at"])
                return own
            return Reservation.objects.create(
                port=port, owner=owner, holder=holder[:200], starts_at=starts_at, ends_at=ends_at, project=project
            )
    except IntegrityError as error:
        standing = Reservation.objects.standing().filter(port=port).exclude(owner=owner)
        raise PortTaken(port, standing.overlapping(starts_at, ends_at).order_by("starts_at").first()) from error


def reserve_times(owner: str, *, starts_at: datetime, ends_at: datetime) -> None:
    """Change the times of all the owner's reservations. Raises PortTaken if another owner holds a port then."""
    for held in Reservation.objects.standing().filter(owner=owner).select_related("port"):
        reserve(held.port, owner=owner, holder=held.holder, starts_at=starts_at, ends_at=ends_at)


def release(owner: str, *, now: datetime, except_port: Port | None = None) -> int:
    """Release all the owner's reservations, except that of `except_port`."""
    held = Reservation.objects.standing().filter(owner=owner)
    if except_port is not None:
        held = held.exclude(port=except_port)
    return held.update(released_at=now)
