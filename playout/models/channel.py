"""A channel: its settings and state, its outputs, and its recoveries."""

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from nodes.models.node import label_validator
from playout.channels.outputs import ONLY_ONE, TWICE, OutputType, parse_output
from station.sealing import CannotOpen, seal, unseal
from station.states import Event, Machine
from worker.wire import codec
from worker.wire.rundown import Place


class ChannelQuerySet(models.QuerySet["Channel"]):
    def to_look_at(self) -> "ChannelQuerySet":
        """Wanted, or not yet off air."""
        return self.filter(Q(is_wanted=True) | ~Q(state=Channel.State.OFF_AIR))


class Channel(Machine):
    class State(models.TextChoices):
        OFF_AIR = "off_air", "off air"
        STARTING = "starting"
        ON_AIR = "on_air", "on air"
        FAILING_OVER = "failing_over", "failing over"
        STOPPING = "stopping"
        ERROR = "error"

    MOVES = {
        State.OFF_AIR: {State.STARTING},
        State.STARTING: {State.ON_AIR, State.STOPPING},
        State.ON_AIR: {State.FAILING_OVER, State.STOPPING, State.ERROR},
        State.FAILING_OVER: {State.ON_AIR, State.STOPPING},
        State.STOPPING: {State.OFF_AIR},
        State.ERROR: {State.STARTING, State.ON_AIR, State.STOPPING},
    }
    OVER = (State.OFF_AIR, State.ERROR)
    # After these an alert is raised. Airlock keeps trying while the channel is wanted.
    DEADLINES = {
        State.STARTING: timedelta(seconds=30),
        State.FAILING_OVER: timedelta(seconds=30),
        State.STOPPING: timedelta(seconds=30),
    }
    COLOURS = {
        State.OFF_AIR: "grey",
        State.STARTING: "blue",
        State.ON_AIR: "red",
        State.FAILING_OVER: "amber",
        State.STOPPING: "amber",
        State.ERROR: "amber",
    }

    class Picture(models.TextChoices):
        P360 = "640x360p25", "640x360, 25 frames a second"
        P720_25 = "1280x720p25", "1280x720, 25 frames a second"
        P720_50 = "1280x720p50", "1280x720, 50 frames a second"
        P1080_25 = "1920x1080p25", "1920x1080, 25 frames a second"
        P1080_2997 = "1920x1080p29.97", "1920x1080, 29.97 frames a second"
        P1080_50 = "1920x1080p50", "1920x1080, 50 frames a second"

    class Slate(models.TextChoices):
        BARS = "bars", "colour bars"
        BLACK = "black"

    class Pause(models.TextChoices):
        HOLD = "hold", "hold the picture, without sound"
        BLACK = "black"

    state = models.CharField(max_length=16, choices=State.choices, default=State.OFF_AIR, editable=False)
    name = models.CharField(max_length=80, unique=True)
    project = models.ForeignKey("station.Project", null=True, on_delete=models.PROTECT, related_name="channels")
    # Whether people want it on air; `state` is what is observed.
    is_wanted = models.BooleanField("wanted on air", default=False, editable=False)
    playlist = models.ForeignKey(
        "playout.Playlist",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="played_by",
        help_text="Played on days that have no list of their own.",
    )
    filler = models.ForeignKey(
        "assets.Asset",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Plays in a loop while the list has nothing to play. Empty: the slate.",
    )
    picture = models.CharField("video format", max_length=20, choices=Picture.choices, default=Picture.P720_25)
    video_bitrate = models.CharField(
        max_length=6, default="4M", validators=[RegexValidator(r"^[1-9][0-9]{0,4}[kM]$", "Like 800k or 8M.")]
    )
    slate = models.CharField(max_length=8, choices=Slate.choices, default=Slate.BARS)
    pause = models.CharField("while paused", max_length=8, choices=Pause.choices, default=Pause.HOLD)
    isolation_seconds = models.PositiveIntegerField(
        "stop without Airlock after",
        null=True,
        blank=True,
        validators=[MinValueValidator(10), MaxValueValidator(86_400)],
        help_text="Seconds without contact to Airlock until the channel goes off air. Empty: it keeps playing.",
    )
    node = models.ForeignKey(
        "nodes.Node",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Empty: any suitable node, and another one if it fails.",
    )
    node_labels = models.CharField(
        max_length=200,
        blank=True,
        validators=[label_validator],
        help_text="Labels the node must have, separated by spaces.",
    )

    restart_count = models.PositiveIntegerField(default=0, editable=False)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    error = models.TextField(blank=True, editable=False)
    on_air_since_at = models.DateTimeField(null=True, editable=False)
    # When the reservations of its ports are reviewed next (P-15). Empty: it needs none.
    ports_due_at = models.DateTimeField(null=True, editable=False)
    # Its last known position in the list: the next media worker continues there (P-07).
    place = models.JSONField(default=dict, editable=False)
    # How far the as-run log of its media worker has been read.
    asrun_generation = models.PositiveIntegerField(default=0, editable=False)
    asrun_revision = models.BigIntegerField(default=0, editable=False)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        permissions = [("operate_channel", "Can start, stop and control channels")]
        indexes = [
            # For the loop's query: wanted, or not yet off air.
            models.Index(fields=["id"], condition=Q(is_wanted=True) | ~Q(state="off_air"), name="channel_to_look_at"),
            # For the loop's query: whose ports are reviewed next.
            models.Index(fields=["ports_due_at"], condition=Q(ports_due_at__isnull=False), name="channel_ports_due"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        """The owner of its workloads."""
        return f"channel:{self.pk}"

    @property
    def size(self) -> tuple[int, int]:
        width, _, height = self.picture.partition("p")[0].partition("x")
        return int(width), int(height)

    @property
    def rate(self) -> Fraction:
        text = self.picture.partition("p")[2]
        return Fraction(30000, 1001) if text == "29.97" else Fraction(text)

    def read_place(self) -> Place | None:
        """The column `place`, decoded."""
        return codec.decode(Place, self.place, "place") if self.place else None

    @property
    def has_card(self) -> bool:
        return any(output.type == OutputType.DECKLINK for output in self.outputs.all() if output.is_active)


class ChannelEvent(Event):
    subject = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="events")


class ChannelOutput(models.Model):
    """One output of a channel. Each output fails and recovers independently."""

    project_path = "channel__project"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="outputs")
    type = models.CharField(max_length=10, choices=OutputType.choices)
    address = models.CharField(max_length=500, help_text="Secrets in the address are sealed when you save.")
    secrets_sealed = models.TextField(blank=True, editable=False)
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["channel", "id"]
        constraints = [
            # Two of them would write the same files or use the same card.
            models.UniqueConstraint(
                fields=["channel", "type", "address"],
                condition=Q(type__in=ONLY_ONE),
                name="output_once",
                violation_error_message=f"{TWICE}.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_type_display()}: {self.address}"

    @property
    def secrets(self) -> dict[str, Any]:
        return unseal(self.secrets_sealed)

    def clean(self) -> None:
        if not self.type:
            return
        try:
            parse_output(self.type, self.address)
        except ValidationError as error:
            raise ValidationError({"address": error.messages}) from error
        if self.type == OutputType.DECKLINK and self.channel_id and self.channel.node_id is None:
            raise ValidationError({"type": "A DeckLink device belongs to a machine: choose the channel's node first."})

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Never store an address with a secret in it (S-05), and never send an old secret to a new server."""
        parsed = parse_output(self.type, self.address)
        kept = self._readable_secrets() if self._has_same_server(parsed.address) else {}
        secrets = {**kept, **parsed.secrets}
        if secrets or not self.secrets_sealed or not self._has_same_server(parsed.address):
            self.secrets_sealed = seal(secrets) if secrets else ""
        self.address = parsed.address
        super().save(*args, **kwargs)

    def _has_same_server(self, address: str) -> bool:
        """It is the same type of output to the same server as before."""
        stored = ChannelOutput.objects.filter(pk=self.pk).first() if self.pk else None
        if stored is None:
            return True
        return stored.type == self.type and urlsplit(stored.address).netloc == urlsplit(address).netloc

    def _readable_secrets(self) -> dict[str, Any]:
        try:
            return self.secrets
        except CannotOpen:
            return {}


class Recovery(models.Model):
    """One restart or move of a channel (P-08): why, from where to where, and how long it was off air."""

    project_path = "channel__project"

    class Kind(models.TextChoices):
        RESTART = "restart", "restarted"
        MOVE = "move", "moved to another machine"
        BY_HAND = "by_hand", "moved by hand"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="recoveries")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    reason = models.TextField()
    by = models.CharField(max_length=150)
    from_node = models.ForeignKey("nodes.Node", null=True, on_delete=models.SET_NULL, related_name="+")
    to_node = models.ForeignKey("nodes.Node", null=True, on_delete=models.SET_NULL, related_name="+")
    lost_at = models.DateTimeField()  # the last frame that is known to have been sent
    noticed_at = models.DateTimeField()
    back_at = models.DateTimeField(null=True)
    off_air_seconds = models.FloatField(null=True)

    class Meta:
        ordering = ["-noticed_at", "-id"]
        verbose_name_plural = "recoveries"
        indexes = [
            # For the number of recoveries in the last minutes (P-05).
            models.Index(fields=["channel", "-noticed_at"], name="recovery_of_channel")
        ]

    def __str__(self) -> str:
        took = f"{self.off_air_seconds:.1f} s off air" if self.off_air_seconds is not None else "not back yet"
        return f"{self.get_kind_display()}: {took}"

    @classmethod
    def open_of(cls, channel: Channel) -> "Recovery | None":
        return cls.objects.filter(channel=channel, back_at=None).first()

    @classmethod
    def recent(cls, channel: Channel, since: datetime) -> "models.QuerySet[Recovery]":
        """Recoveries that were not by hand, the newest first."""
        return cls.objects.filter(channel=channel, noticed_at__gt=since).exclude(kind=cls.Kind.BY_HAND)
