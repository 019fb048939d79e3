"""An output of a channel: its address, where it is monitored, and their sealed secrets."""

from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from playout.channels import outputs
from playout.channels.outputs import ONLY_ONE, TWICE, OutputType, parse_monitored, parse_output
from playout.models.channel import Channel
from station.sealing import CannotOpen, seal, unseal


class ChannelOutput(models.Model):
    """One output of a channel. Each output fails and recovers independently."""

    project_path = "channel__project"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="outputs")
    type = models.CharField(max_length=10, choices=OutputType.choices)
    address = models.CharField(max_length=500, help_text="Secrets in the address are sealed when you save.")
    secrets_sealed = models.TextField(blank=True, editable=False)
    constant_bitrate = models.CharField(
        max_length=6,
        blank=True,
        validators=[outputs.BITRATE],
        help_text="Of the transport stream (SRT, UDP, RTP), filled up with null packets, like 5M. Empty: variable.",
    )
    is_active = models.BooleanField(default=True)
    monitored_at = models.CharField(
        max_length=500,
        blank=True,
        help_text="Where the output can be received, to check what really goes out: for multicast the same address, "
        "for RTMP the server's play address. Empty: it is not checked. One output of a channel can be monitored.",
    )
    monitored_secrets_sealed = models.TextField(blank=True, editable=False)

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

    @property
    def monitored_secrets(self) -> dict[str, Any]:
        return unseal(self.monitored_secrets_sealed)

    def clean(self) -> None:
        try:
            parse_monitored(self.monitored_at)
        except ValidationError as error:
            raise ValidationError({"monitored_at": error.messages}) from error
        if not self.type:
            return
        try:
            parse_output(self.type, self.address)
        except ValidationError as error:
            raise ValidationError({"address": error.messages}) from error
        if self.constant_bitrate and hasattr(self, "channel"):  # also a channel that is saved with it
            outputs.check_constant_bitrate(self.type, self.constant_bitrate, self.channel.video_bitrate)
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
        self._seal_monitored()
        super().save(*args, **kwargs)

    def _seal_monitored(self) -> None:
        """An unchanged address keeps its secrets, another one has its own."""
        stored = ChannelOutput.objects.filter(pk=self.pk).first() if self.pk else None
        parsed = parse_monitored(self.monitored_at)
        is_same = parsed and not parsed.secrets and stored and stored.monitored_at == parsed.address
        if not is_same:
            self.monitored_secrets_sealed = seal(parsed.secrets) if parsed and parsed.secrets else ""
        self.monitored_at = parsed.address if parsed else ""

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
