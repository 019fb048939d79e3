"""Delivery of assets to an external MAM: destinations, deliveries and their attempts."""

import uuid
from datetime import datetime
from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from station.database.words import Words
from station.sealing import CannotOpen, seal, unseal
from station.states import Event, Machine

MAX_ATTEMPTS = 8


class Destination(models.Model):
    """Where a project's assets are delivered: a connector and its configuration."""

    class Connector(models.TextChoices):
        HTTP = "http", "HTTP with JSON"
        FOLDER = "folder", "delivery folder"

    name = models.CharField(max_length=80)
    project = models.ForeignKey("station.Project", on_delete=models.CASCADE, related_name="destinations")
    connector = models.CharField(max_length=10, choices=Connector.choices, default=Connector.HTTP)
    config = models.JSONField("configuration", default=dict, blank=True)
    secrets_sealed = models.TextField(blank=True, editable=False)
    is_automatic = models.BooleanField(
        "automatic", default=True, help_text="Deliver every asset in this project automatically when it is ready."
    )
    takes_partial = models.BooleanField(default=True, help_text="Also deliver incomplete recordings.")
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["project", "name"]
        constraints = [
            # Staff choose destinations by name.
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


# What the search box of the list finds.
MAM_DELIVERY_WORDS = Words("external_id")


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, now: datetime) -> "DeliveryQuerySet":
        """A-03: pending or failed, with attempts left, and due; those never attempted come first."""
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
    # Finished; staff may still deliver it again.
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
    # Sent with every attempt, so that the MAM can recognise a repetition.
    key = models.UUIDField(default=uuid.uuid4, editable=False)
    external_id = models.CharField("external ID", max_length=200, blank=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    # How often it was delivered again by hand.
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
            # One delivery per asset and destination.
            models.UniqueConstraint(fields=["asset", "destination"], name="delivery_once_per_destination")
        ]
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(MAM_DELIVERY_WORDS, name="mam_delivery_words"),
            # The leader's step reads what is due next.
            models.Index(
                models.F("next_attempt_at").asc(nulls_first=True),
                condition=Q(state__in=["pending", "failed"]),
                name="mam_delivery_due",
            ),
            # The leader's step reads deliveries being sent.
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
    """One attempt, kept for questions to the MAM's operators (A-03)."""

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
            # One log row per attempt.
            models.UniqueConstraint(fields=["delivery", "number"], name="attempt_once_per_number")
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"
