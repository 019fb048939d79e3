"""Alerts, the routes they are sent by, and the messages sent."""

from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.core.validators import validate_email
from django.db import models

from station.database.words import Words
from station.states import Event, Machine

# What the search box of the list finds.
ALERT_WORDS = Words("title", "text", "key")


class Severity(models.IntegerChoices):
    NOTICE = 10, "notice"
    WARNING = 20, "warning"
    CRITICAL = 30, "critical"


class Alert(Machine):
    """One problem that a person must know about. While it lasts, there is one row per `key`."""

    class State(models.TextChoices):
        OPEN = "open"
        ACKNOWLEDGED = "acknowledged"
        RESOLVED = "resolved"

    MOVES = {
        State.OPEN: {State.ACKNOWLEDGED, State.RESOLVED},
        State.ACKNOWLEDGED: {State.RESOLVED},
        State.RESOLVED: {State.OPEN, State.ACKNOWLEDGED},
    }
    # It may come back soon after (see station.alerts.raising).
    OVER = (State.RESOLVED,)
    COLOURS = {State.OPEN: "red", State.ACKNOWLEDGED: "amber", State.RESOLVED: "grey"}

    key = models.CharField(max_length=120)
    severity = models.PositiveSmallIntegerField(choices=Severity.choices)
    title = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    subject = models.CharField(max_length=80, blank=True)  # "booking:12"
    project = models.ForeignKey("station.Project", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    raised_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    times_seen = models.PositiveIntegerField(default=1)
    # How often it came back soon after it was resolved.
    times_returned = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-raised_at", "-id"]
        permissions = [("acknowledge_alert", "Can acknowledge and resolve alerts")]
        constraints = [
            # One open alert per key: raising the key again updates this row (see station.alerts).
            models.UniqueConstraint(
                fields=["key"], condition=~models.Q(state="resolved"), name="alert_once_while_unresolved"
            )
        ]
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(ALERT_WORDS, name="alert_words"),
            # Raising: was the same alert, or another one of the same cause (a prefix of the key), raised recently?
            models.Index(
                fields=["key", "-raised_at"], opclasses=["varchar_pattern_ops", "timestamptz_ops"], name="alert_by_key"
            ),
        ]

    def __str__(self) -> str:
        return self.title


class AlertEvent(Event):
    subject = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="events")


class AlertRoute(models.Model):
    """Where alerts are sent: an e-mail address or a webhook, from a minimum severity, for one project or all."""

    class Channel(models.TextChoices):
        MAIL = "mail", "e-mail"
        WEBHOOK = "webhook", "webhook (JSON, signed)"

    name = models.CharField(max_length=80, unique=True)
    channel = models.CharField(max_length=10, choices=Channel.choices)
    target = models.CharField(max_length=500, help_text="An e-mail address, or an https:// address.")
    secret_sealed = models.TextField(blank=True, editable=False)
    min_severity = models.PositiveSmallIntegerField(choices=Severity.choices, default=Severity.WARNING)
    project = models.ForeignKey(
        "station.Project",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Leave empty for all projects.",
    )
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        from station.outbound import check_url_form

        if self.channel == self.Channel.MAIL:
            validate_email(self.target)
        else:
            check_url_form(self.target)


class DeliveryQuerySet(models.QuerySet["AlertDelivery"]):
    def due(self, now: datetime) -> "DeliveryQuerySet":
        return self.filter(outcome__in=["pending", "failed"], next_attempt_at__lte=now)


class AlertDelivery(models.Model):
    """One message to one route, with its attempts and its outcome."""

    class Outcome(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        FAILED = "failed", "failed, will retry"
        GIVEN_UP = "given_up", "given up"

    COLOURS: ClassVar[dict[str, str]] = {
        Outcome.PENDING: "blue",
        Outcome.SENT: "green",
        Outcome.FAILED: "amber",
        Outcome.GIVEN_UP: "red",
    }

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="deliveries")
    route = models.ForeignKey(AlertRoute, on_delete=models.CASCADE, related_name="deliveries")
    what = models.CharField(max_length=12)  # raised, escalated, resolved, returned
    # The alert's times_returned when the message was queued.
    round = models.PositiveIntegerField(default=0)
    # Sent in one mail with others, because the route had reached its limit (see station.alerts.mail_limit).
    is_digest = models.BooleanField(default=False)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)
    sent_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "alert deliveries"
        constraints = [
            # One message per alert, route and event (raised, escalated, resolved), each time the alert comes back.
            models.UniqueConstraint(fields=["alert", "route", "what", "round"], name="delivery_once_per_step")
        ]
        indexes = [
            # The sending step queries only the messages that are due.
            models.Index(
                fields=["next_attempt_at"],
                condition=models.Q(outcome__in=["pending", "failed"]),
                name="delivery_due",
            ),
            # The limit of mails per hour counts those sent recently.
            models.Index(fields=["route", "sent_at"], condition=models.Q(outcome="sent"), name="delivery_sent"),
        ]

    def __str__(self) -> str:
        return f"{self.what}: {self.alert} by {self.route}"
