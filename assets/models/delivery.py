"""Handing an asset to an external MAM: where to, how far it has come, and every attempt."""

import uuid
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from station.sealing import CannotOpen, seal, unseal
from station.states import Event, Machine

MAX_ATTEMPTS = 8


class Destination(models.Model):
    """Where a project's assets go: which connector, told what."""

    class Connector(models.TextChoices):
        HTTP = "http", "HTTP with JSON"
        FOLDER = "folder", "hand-over folder"

    name = models.CharField(max_length=80)
    project = models.ForeignKey("station.Project", on_delete=models.CASCADE, related_name="destinations")
    connector = models.CharField(max_length=10, choices=Connector.choices, default=Connector.HTTP)
    config = models.JSONField("configuration", default=dict, blank=True)
    secrets_sealed = models.TextField(blank=True, editable=False)
    is_automatic = models.BooleanField(
        "automatic", default=True, help_text="Deliver every asset in this project automatically when it is ready."
    )
    takes_partial = models.BooleanField(default=True, help_text="Recordings with something missing are delivered too.")
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["project", "name"]
        constraints = [
            # People name them; two of one name could not be told apart.
            models.UniqueConstraint(fields=["project", "name"], name="destination_once_per_name")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def secret(self) -> str:
        """The token or signing key; empty if there is none."""
        return str(unseal(self.secrets_sealed).get("secret", ""))

    def set_secret(self, secret: str) -> None:
        self.secrets_sealed = seal({"secret": secret}) if secret else ""

    def clean(self) -> None:
        from assets.delivery.connectors import check_config

        try:
            has_secret = bool(self.secret)
        except CannotOpen:
            has_secret = True
        faults = check_config(self.connector, self.config, has_secret=has_secret)
        if faults:
            raise ValidationError({"config": faults})


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, now: datetime) -> "DeliveryQuerySet":
        """A-03: pending or failed, attempts left, its time come; what was never tried first."""
        waiting = self.filter(state__in=Delivery.WAITING, attempts__lt=MAX_ATTEMPTS, destination__is_active=True)
        return waiting.filter(Q(next_attempt_at=None) | Q(next_attempt_at__lte=now)).order_by(
            models.F("next_attempt_at").asc(nulls_first=True), "id"
        )


class Delivery(Machine):
    class State(models.TextChoices):
        PENDING = "pending"
        SENDING = "sending"
        DELIVERED = "delivered"
        FAILED = "failed", "failed, will retry"
        GIVEN_UP = "given_up", "given up"

    MOVES = {
        State.PENDING: {State.SENDING, State.GIVEN_UP},
        State.SENDING: {State.DELIVERED, State.FAILED, State.GIVEN_UP},
        State.FAILED: {State.SENDING, State.PENDING, State.GIVEN_UP},
        State.DELIVERED: {State.PENDING},
        State.GIVEN_UP: {State.PENDING},
    }
    # Over, though a person may have it delivered again.
    OVER = (State.DELIVERED, State.GIVEN_UP)
    WAITING = (State.PENDING, State.FAILED)
    COLOURS = {
        State.PENDING: "blue",
        State.SENDING: "yellow",
        State.DELIVERED: "green",
        State.FAILED: "amber",
        State.GIVEN_UP: "red",
    }

    project_path = "asset__project"

    asset = models.ForeignKey("assets.Asset", on_delete=models.PROTECT, related_name="deliveries")
    destination = models.ForeignKey(Destination, on_delete=models.PROTECT, related_name="deliveries")
    # Sent with every attempt, so that the other side can tell a repetition from a second order.
    key = models.UUIDField(default=uuid.uuid4, editable=False)
    external_id = models.CharField("their number", max_length=200, blank=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    # How often somebody had it delivered again.
    rounds = models.PositiveIntegerField(default=0, editable=False)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    error = models.TextField(blank=True, editable=False)
    run_ref = models.BigIntegerField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    delivered_at = models.DateTimeField(null=True, editable=False)
    requested_by = models.CharField(max_length=150, blank=True, editable=False)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        constraints = [
            # Wanted twice is delivered once.
            models.UniqueConstraint(fields=["asset", "destination"], name="delivery_once_per_destination")
        ]
        indexes = [
            # The loop asks for what is due next.
            models.Index(
                models.F("next_attempt_at").asc(nulls_first=True),
                condition=Q(state__in=["pending", "failed"]),
                name="mam_delivery_due",
            ),
            # And for what somebody is at.
            models.Index(fields=["id"], condition=Q(state="sending"), name="mam_delivery_sending"),
        ]

    def __str__(self) -> str:
        return f"{self.asset} to {self.destination}"

    @property
    def owner(self) -> str:
        return f"delivery:{self.pk}"


class DeliveryEvent(Event):
    subject = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="events")


class DeliveryAttempt(models.Model):
    """One try, for people who ask the other side what happened (A-03)."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="log")
    number = models.PositiveIntegerField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    is_good = models.BooleanField(null=True)
    text = models.TextField(blank=True)
    detail: Any = models.JSONField(default=dict)

    class Meta:
        ordering = ["delivery", "number"]
        constraints = [
            # The count of attempts and the log cannot disagree.
            models.UniqueConstraint(fields=["delivery", "number"], name="attempt_once_per_number")
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"
