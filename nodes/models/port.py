"""Ports of a node, which only one owner may hold at a time, and their reservations."""

from datetime import datetime

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q, Value

from station.clock import house_time
from station.database.words import Words

# What the search box of the list finds.
RESERVATION_WORDS = Words("holder", "owner")


class Port(models.Model):
    """A DeckLink device or a listening network port of one node."""

    class Kind(models.TextChoices):
        DECKLINK = "decklink", "DeckLink device"
        UDP = "udp", "UDP port (SRT, RTP and UDP listeners)"
        TCP = "tcp", "TCP port (RTMP listeners)"

    is_station_wide = True

    node = models.ForeignKey("nodes.Node", on_delete=models.CASCADE, related_name="ports")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    number = models.PositiveIntegerField()
    note = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ["node", "kind", "number"]
        constraints = [
            # One row per physical port: the exclusion constraint below works per row.
            models.UniqueConstraint(fields=["node", "kind", "number"], name="port_once_per_node")
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display().split(' (')[0]} {self.number} on {self.node}"


class ReservationQuerySet(models.QuerySet["Reservation"]):
    def on(self, node_id: int, kind: str, number: int) -> "ReservationQuerySet":
        return self.filter(port__node=node_id, port__kind=kind, port__number=number)

    def standing(self) -> "ReservationQuerySet":
        return self.filter(released_at=None)

    def overlapping(self, starts_at: datetime, ends_at: datetime | None) -> "ReservationQuerySet":
        begins_before = Q() if ends_at is None else Q(starts_at__lt=ends_at)
        return self.filter(begins_before, Q(ends_at=None) | Q(ends_at__gt=starts_at))


class Reservation(models.Model):
    """`owner` holds the port from starts_at to ends_at (empty: until released)."""

    project = models.ForeignKey("station.Project", null=True, on_delete=models.SET_NULL, related_name="+")
    port = models.ForeignKey(Port, on_delete=models.CASCADE, related_name="reservations")
    owner = models.CharField(max_length=60)
    holder = models.CharField(max_length=200, help_text="The name of the owner.")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)
    # The owner wants it longer, but the reservation of another owner begins at ends_at.
    is_cut_short = models.BooleanField(default=False)

    objects = ReservationQuerySet.as_manager()

    class Meta:
        ordering = ["-starts_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gt=F("starts_at")), name="reservation_ends_after_start"
            ),
            # One holder at a time. A range of one id needs no btree_gist extension.
            ExclusionConstraint(
                name="reservation_one_holder",
                index_type="GIST",
                expressions=[
                    (Func(F("port_id"), F("port_id"), Value("[]"), function="int8range"), RangeOperators.OVERLAPS),
                    (Func(F("starts_at"), F("ends_at"), function="tstzrange"), RangeOperators.OVERLAPS),
                ],
                condition=Q(released_at=None),
            ),
        ]
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(RESERVATION_WORDS, name="reservation_words"),
            # Reservations are found and released by owner.
            models.Index(fields=["owner"], condition=Q(released_at=None), name="reservation_of_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.holder} holds {self.port}"

    def overlaps(self, starts_at: datetime, ends_at: datetime) -> bool:
        """As `overlapping` of the query set."""
        return self.starts_at < ends_at and (self.ends_at is None or self.ends_at > starts_at)

    @property
    def in_words(self) -> str:
        """Who holds which port from when to when."""
        until = f"until {house_time(self.ends_at)}" if self.ends_at else "until it is released"
        return f"{self.port} is held by {self.holder} from {house_time(self.starts_at)} {until}"

    @property
    def user(self) -> str:
        """The owner of the workload that uses the port: "channel:5/live" belongs to "channel:5"."""
        return self.owner.partition("/")[0]
