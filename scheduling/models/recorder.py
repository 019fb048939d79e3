"""A source that can be captured."""

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
        """Minutes that divide the hour, so that files begin at round times of the house clock."""

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
        help_text="Secrets typed in here are moved to the sealed part when you save.",
    )
    secrets_sealed = models.TextField(blank=True, editable=False)
    container = models.CharField("file format", max_length=10, choices=Container.choices, default=Container.MPEGTS)
    split_minutes = models.PositiveSmallIntegerField(
        "split by the clock",
        choices=Split.choices,
        default=Split.NEVER,
        help_text="A new file at round times of the house clock (at the next key frame), without losing a frame. "
        "It stays one recording.",
    )
    picture_size = models.CharField(
        max_length=11,
        default="1280x720",
        validators=[RegexValidator(r"^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$", "Like 1280x720.")],
        help_text="For the test pattern and DeckLink; a network source is recorded as it comes.",
    )
    video_bitrate = models.CharField(
        max_length=6,
        default="4M",
        validators=[RegexValidator(r"^[1-9][0-9]{0,4}[kM]$", "Like 800k or 8M.")],
        help_text="For sources that arrive unencoded.",
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
        help_text="Empty: any node that fits.",
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
        """Check the address and move what is secret in it to the sealed part, whoever calls."""
        if not self.source_type:
            return
        try:
            parsed = parse_source(self.source_type, self.address)
        except ValidationError as error:
            raise ValidationError({"address": error.messages}) from error
        if self.source_type == SourceType.DECKLINK and self.node is None:
            raise ValidationError({"node": "A DeckLink device belongs to a machine: choose the node."})
        self.address = parsed.address
        if parsed.secrets:
            self.set_secrets({**self._readable_secrets(), **parsed.secrets})

    def save(self, *args: Any, **kwargs: Any) -> None:
        """The last line of defence: an address never reaches the database with a secret in it."""
        parsed = parse_source(self.source_type, self.address)
        if parsed.secrets or self.secrets_sealed:
            known = {**self._readable_secrets(), **parsed.secrets}
            # Sealed anew with the first key at every save, and never kept for a type that cannot use it.
            fitting = {name: value for name, value in known.items() if name in SECRETS_OF_TYPE[self.source_type]}
            if known or not self.secrets_sealed:
                self.set_secrets(fitting)
        self.address = parsed.address
        super().save(*args, **kwargs)

    def _readable_secrets(self) -> dict[str, Any]:
        """What can still be opened; a secret whose key is lost is left as it is, in case the key is found."""
        try:
            return self.secrets
        except CannotOpen:
            return {}
