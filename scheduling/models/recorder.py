"""Recorders: sources that can be captured."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, RegexValidator
from django.db import models

from nodes.models.node import label_validator
from scheduling.recorders.file_names import DEFAULT_FOLDER, validate_template
from scheduling.recorders.sources import SECRETS_OF_TYPE, SourceType, parse_source
from station.sealing import CannotOpen, seal, unseal


class Recorder(models.Model):
    class Container(models.TextChoices):
        MPEGTS = "mpegts", "MPEG-TS"
        FMP4 = "fmp4", "Fragmented MP4"

    class Split(models.IntegerChoices):
        """Minutes that divide the hour, so that files start at round times in house time."""

        NEVER = 0, "no, one file"
        FIVE = 5, "every 5 minutes"
        TEN = 10, "every 10 minutes"
        QUARTER = 15, "every 15 minutes"
        HALF = 30, "every 30 minutes"
        HOUR = 60, "every hour"

    name = models.CharField(max_length=80, unique=True)
    project = models.ForeignKey("station.Project", null=True, on_delete=models.PROTECT, related_name="recorders")
    source_type = models.CharField("type", max_length=10, choices=SourceType.choices)
    address = models.CharField(
        max_length=500,
        blank=True,
        help_text="Secrets in the address are stored encrypted when you save, and are not shown again.",
    )
    secrets_sealed = models.TextField(blank=True, editable=False)
    programme = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MaxValueValidator(65535)],
        help_text="The number of the programme, if the transport stream has several. Empty: all of them together.",
    )
    container = models.CharField(
        "file format",
        max_length=10,
        choices=Container.choices,
        default=Container.MPEGTS,
        help_text="MPEG-TS keeps every track of a transport stream. Fragmented MP4 keeps picture and sound only: "
        "no teletext, DVB subtitles or SCTE-35. The pre-flight check names what a source would lose.",
    )
    split_minutes = models.PositiveSmallIntegerField(
        "split by the clock",
        choices=Split.choices,
        default=Split.NEVER,
        help_text="Start a new file at round times in house time (at the next key frame), without losing a frame. "
        "The files stay one recording.",
    )
    picture_size = models.CharField(
        max_length=11,
        default="1280x720",
        validators=[RegexValidator(r"^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$", "Enter a size like 1280x720.")],
        help_text="For the test pattern and DeckLink. A network source keeps its own size.",
    )
    video_bitrate = models.CharField(
        max_length=6,
        default="4M",
        validators=[RegexValidator(r"^[1-9][0-9]{0,4}[kM]$", "Enter a bit rate like 800k or 8M.")],
        help_text="For sources that are not encoded: the test pattern and DeckLink.",
    )
    folder_template = models.CharField(
        max_length=200,
        default=DEFAULT_FOLDER,
        validators=[validate_template],
        help_text="{project} {recorder} {date} {year} {month} {day} {time} {booking}",
    )
    node = models.ForeignKey(
        "nodes.Node",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Leave empty for any suitable node.",
    )
    node_labels = models.CharField(
        max_length=200,
        blank=True,
        validators=[label_validator],
        help_text="Labels the node must have, separated by spaces.",
    )
    pad_before_seconds = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(3600)])
    pad_after_seconds = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(3600)])
    is_active = models.BooleanField(default=True, help_text="An inactive recorder cannot be booked.")

    class Meta:
        ordering = ["name"]
        permissions = [("operate_recorder", "Can start and stop recorders")]

    def __str__(self) -> str:
        return self.name

    @property
    def secrets(self) -> dict[str, Any]:
        return unseal(self.secrets_sealed)

    def set_secrets(self, secrets: dict[str, Any]) -> None:
        self.secrets_sealed = seal({name: value for name, value in secrets.items() if value})

    def clean(self) -> None:
        """Check the address and move its secrets to the sealed field."""
        if not self.source_type:
            return
        try:
            parsed = parse_source(self.source_type, self.address)
        except ValidationError as error:
            raise ValidationError({"address": error.messages}) from error
        if self.source_type == SourceType.DECKLINK and self.node is None:
            raise ValidationError({"node": "A DeckLink device is part of one machine: choose its node."})
        self.address = parsed.address
        if parsed.secrets:
            self.set_secrets({**self._readable_secrets(), **parsed.secrets})

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Remove secrets from the address here too, so that no way of saving stores them in plain text."""
        parsed = parse_source(self.source_type, self.address)
        if parsed.secrets or self.secrets_sealed:
            known = {**self._readable_secrets(), **parsed.secrets}
            # Seal with the first key at every save, and drop secrets that the type does not use.
            fitting = {name: value for name, value in known.items() if name in SECRETS_OF_TYPE[self.source_type]}
            if known or not self.secrets_sealed:
                self.set_secrets(fitting)
        self.address = parsed.address
        super().save(*args, **kwargs)

    def _readable_secrets(self) -> dict[str, Any]:
        """The secrets, or nothing if their key is missing; they then stay stored, in case the key is found."""
        try:
            return self.secrets
        except CannotOpen:
            return {}
