"""Port reservations: one holder at a time, enforced by the database; a refusal names the holder (R-14).

A booking or a live item reserves a port for a window. A channel's output holds it without a known end: until it is
released, or until the next window of another owner begins. Such a hold is cut short, and the channel is told (P-15).
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from nodes.models import Node, Port, Reservation
from station.database.locks import Queue, queue_for
from station.models import Project

# Times that differ by less than this are the same: what plays is never exact to the second.
CLOSE = timedelta(seconds=2)
NO_TIME = timedelta(0)


class PortTaken(Exception):
    """Another owner holds the port at that time; the text names the holder and the end."""

    def __init__(self, port: Port, winner: Reservation | None) -> None:
        self.port, self.winner = port, winner
        super().__init__(f"{winner.in_words}." if winner else f"{port} was taken a moment ago.")


def port_of(node: Node, kind: str, number: int) -> Port:
    """The port's row, created on first use."""
    return Port.objects.get_or_create(node=node, kind=kind, number=number)[0]


def ports_of(node: Node, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], Port]:
    """The same for many, with one query when all of them exist."""
    rows = Port.objects.filter(node=node, number__in={number for _, number in wanted})
    found = {(row.kind, row.number): row for row in rows}
    return {each: found.get(each) or port_of(node, *each) for each in wanted}


def queue_for_port(port: Port) -> None:
    """Writers queue: inserts that wait for each other at the exclusion constraint deadlock."""
    queue_for(Queue.PORT, port.pk)


class Holds:
    """The spans in which others hold one port, in order. They never overlap: the database guarantees it."""

    def __init__(self, spans: list[tuple[datetime, datetime | None]]) -> None:
        self._spans = spans

    @classmethod
    def read(cls, port: Port, begins: datetime, ends: datetime, *, but: Collection[str]) -> "Holds":
        """From `begins` to `ends`, without those of the owners `but`."""
        rows = Reservation.objects.standing().filter(port=port).overlapping(begins, ends).order_by("starts_at")
        found = rows.values_list("owner", "starts_at", "ends_at")
        return cls([(starts_at, ends_at) for owner, starts_at, ends_at in found if owner not in but])

    def is_taken(self, begins: datetime, ends: datetime) -> bool:
        index = bisect_left(self._spans, ends, key=lambda span: span[0]) - 1
        if index < 0:
            return False
        until = self._spans[index][1]
        return until is None or until > begins


def holder_between(
    port: Port, starts_at: datetime, ends_at: datetime | None, *, but: Collection[str]
) -> Reservation | None:
    """The first reservation that overlaps this time, without those of the owners `but`."""
    others = Reservation.objects.standing().filter(port=port).exclude(owner__in=but).select_related("port__node")
    return others.overlapping(starts_at, ends_at).order_by("starts_at").first()


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
            queue_for_port(port)
            if own:
                own.starts_at, own.ends_at = starts_at, ends_at
                own.save(update_fields=["starts_at", "ends_at"])
                return own
            return Reservation.objects.create(
                port=port, owner=owner, holder=holder[:200], starts_at=starts_at, ends_at=ends_at, project=project
            )
    except IntegrityError as error:
        raise PortTaken(port, first_other(port, owner, starts_at, ends_at)) from error


def first_other(port: Port, owner: str, starts_at: datetime, ends_at: datetime | None) -> Reservation | None:
    """The first reservation of another owner in this window."""
    return holder_between(port, starts_at, ends_at, but=[owner])


def first_others(owner: str, windows: Collection["Window"], now: datetime) -> dict["Window", Reservation]:
    """For each window, the first reservation of another owner in what is left of it; one query for all."""
    if not windows:
        return {}
    begins, ends = min(each.starts_at for each in windows), max(each.ends_at for each in windows)
    rows = Reservation.objects.standing().filter(port__in={each.port.pk for each in windows}).exclude(owner=owner)
    by_port: dict[int, list[Reservation]] = {}
    for row in rows.overlapping(max(begins, now), ends).order_by("starts_at").select_related("port__node"):
        by_port.setdefault(row.port_id, []).append(row)
    firsts = {
        window: next(
            (row for row in by_port.get(window.port.pk, ()) if row.overlaps(window.since(now), window.ends_at)), None
        )
        for window in windows
    }
    return {window: row for window, row in firsts.items() if row is not None}


def reserve_times(owner: str, *, starts_at: datetime, ends_at: datetime) -> None:
    """Change the times of all the owner's reservations. Raises PortTaken if another owner holds a port then."""
    for held in Reservation.objects.standing().filter(owner=owner).select_related("port"):
        reserve(held.port, owner=owner, holder=held.holder, starts_at=starts_at, ends_at=ends_at)


def release_all(owners: Collection[str], *, now: datetime) -> None:
    """Release all reservations of these owners."""
    Reservation.objects.standing().filter(owner__in=owners).update(released_at=now)


def release(owner: str, *, now: datetime, except_port: Port | None = None) -> int:
    """Release all the owner's reservations, except that of `except_port`."""
    held = Reservation.objects.standing().filter(owner=owner)
    if except_port is not None:
        held = held.exclude(port=except_port)
    return held.update(released_at=now)


def hold(
    port: Port,
    *,
    owner: str,
    holder: str,
    now: datetime,
    at_least: timedelta = NO_TIME,
    project: Project | None = None,
) -> Reservation:
    """Hold the port from now on, until it is released or the next reservation of another owner begins.

    Raises PortTaken if another owner has it now, or gets it within `at_least`.
    """
    with transaction.atomic():
        queue_for(Queue.PORT, port.pk)
        other = first_other(port, owner, now, None)
        if other is not None and other.starts_at <= now + at_least:
            raise PortTaken(port, other)
        ends_at = other.starts_at if other else None
        own = Reservation.objects.standing().filter(port=port, owner=owner).first()
        if own is not None and (own.ends_at is None or own.ends_at > now):
            own.ends_at, own.is_cut_short = ends_at, other is not None
            own.save(update_fields=["ends_at", "is_cut_short"])
            return own
        if own is not None:
            Reservation.objects.filter(pk=own.pk).update(released_at=now)
        return Reservation.objects.create(
            port=port,
            owner=owner,
            holder=holder[:200],
            starts_at=now,
            ends_at=ends_at,
            is_cut_short=other is not None,
            project=project,
        )


@dataclass(frozen=True)
class Window:
    """A time for which an owner wants a port. `is_certain`: it will use the port for all of that time."""

    port: Port
    starts_at: datetime
    ends_at: datetime
    holder: str
    is_certain: bool = True

    def since(self, now: datetime) -> datetime:
        return max(self.starts_at, now)


@dataclass(frozen=True)
class Clash:
    """A window that another owner's reservation leaves no room for, or not enough."""

    window: Window
    other: Reservation


def reserve_windows(
    owner: str,
    wanted: Iterable[Window],
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    project: Project | None = None,
) -> list[Clash]:
    """Make the owner's reservations that begin in [since, until) exactly these windows; returns those that clash.

    A window that clashes is reserved up to the other reservation. Callers of one owner must not run at the same time.
    """
    rows = Reservation.objects.standing().filter(owner=owner).select_related("port")
    rows = rows.filter(starts_at__gte=since) if since else rows
    rows = rows.filter(starts_at__lt=until) if until else rows
    left, missing, clashes = list(rows), list[Window](), list[Clash]()
    merged = _merged(wanted)
    others = first_others(owner, merged, now)
    for window in merged:
        other = others.get(window)
        same = next((row for row in left if _is_same(row, window, other, now)), None)
        if same is None:
            missing.append(window)
            continue
        left.remove(same)
        clashes += [Clash(window, other)] if other else []
        if same.holder != window.holder[:200]:
            Reservation.objects.filter(pk=same.pk).update(holder=window.holder[:200])
    Reservation.objects.filter(pk__in=[row.pk for row in left]).update(released_at=now)
    for window in missing:
        if clash := _reserve_free_part(owner, window, now, project):
            clashes.append(clash)
    return clashes


def _merged(wanted: Iterable[Window]) -> list[Window]:
    """Windows of one port that overlap become one. Sorted by port, so that two callers cannot deadlock."""
    found: list[Window] = []
    for window in sorted(wanted, key=lambda each: (each.port.pk, each.starts_at)):
        last = found[-1] if found else None
        is_next = last is not None and last.holder == window.holder and window.starts_at == last.ends_at
        if last is not None and last.port == window.port and (window.starts_at < last.ends_at or is_next):
            is_certain = last.is_certain and window.is_certain
            found[-1] = replace(last, ends_at=max(last.ends_at, window.ends_at), is_certain=is_certain)
        else:
            found.append(window)
    return found


def _is_same(row: Reservation, window: Window, other: Reservation | None, now: datetime) -> bool:
    """The row reserves what is free of this window. When it began does not matter once it has begun."""
    if row.port_id != window.port.pk or row.ends_at is None:
        return False
    starts = max(row.starts_at, now) - max(window.starts_at, now)
    ends = row.ends_at - (other.starts_at if other else window.ends_at)
    is_cut_short = other is not None and window.is_certain
    return abs(starts) < CLOSE and abs(ends) < CLOSE and row.is_cut_short == is_cut_short


def _reserve_free_part(owner: str, window: Window, now: datetime, project: Project | None) -> Clash | None:
    with transaction.atomic():
        queue_for(Queue.PORT, window.port.pk)
        starts_at = max(window.starts_at, now)
        other = first_other(window.port, owner, starts_at, window.ends_at)
        if other is None or other.starts_at > starts_at:
            Reservation.objects.create(
                port=window.port,
                owner=owner,
                holder=window.holder[:200],
                starts_at=starts_at,
                ends_at=other.starts_at if other else window.ends_at,
                is_cut_short=other is not None and window.is_certain,
                project=project,
            )
        return Clash(window, other) if other else None
