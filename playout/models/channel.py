"""A channel: its settings and state."""

from datetime import timedelta
from fractions import Fraction

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from nodes.models.node import label_validator
from playout.channels import outputs
from playout.channels.outputs import OutputType
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

    class Fit(models.TextChoices):
        PAD = "pad", "bars beside or above it"
        CROP = "crop", "cut to fill the picture"
        STRETCH = "stretch", "stretched"

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
    fit = models.CharField("another shape", max_length=8, choices=Fit.choices, default=Fit.PAD)
    video_bitrate = models.CharField(max_length=6, default="4M", validators=[outputs.BITRATE])
    loudness_lufs = models.FloatField(
        "target loudness",
        null=True,
        blank=True,
        default=-23.0,
        validators=[MinValueValidator(-40.0), MaxValueValidator(-10.0)],
        help_text="LUFS. Measured clips are played louder or softer to meet it; live sources are not. Empty: off.",
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
