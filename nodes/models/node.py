"""Nodes: machines that run containers, or this machine running plain processes."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from nodes.addresses import NodeAddress, is_host, parse_node_address, validate_node_address
from station.states import Event, Machine

CONTAINER = " in container "  # in a process node's home, before the PID namespace

label_validator = RegexValidator(
    r"^[a-z0-9][a-z0-9_.=-]*( [a-z0-9][a-z0-9_.=-]*)*$", "Use labels of a-z, 0-9, - . = _, separated by spaces."
)


class Node(Machine):
    class State(models.TextChoices):
        UNKNOWN = "unknown"
        UP = "up"
        DOWN = "down"

    MOVES = {
        State.UNKNOWN: {State.UP, State.DOWN},
        State.UP: {State.DOWN},
        State.DOWN: {State.UP},
    }
    COLOURS = {State.UNKNOWN: "grey", State.UP: "green", State.DOWN: "red"}
    is_station_wide = True

    state = models.CharField(max_length=16, default=State.UNKNOWN, editable=False)
    name = models.SlugField(max_length=40, unique=True)
    address = models.CharField(
        max_length=200,
        unique=True,
        validators=[validate_node_address],
        help_text="process, unix:///var/run/docker.sock, ssh://user@host or tcp://host:2376 (mutual TLS).",
    )
    control_host = models.CharField(
        max_length=200,
        blank=True,
        help_text="The host at which this node's media workers answer over HTTP, if it differs from the address.",
    )
    control_port_from = models.PositiveIntegerField(
        default=9600, validators=[MinValueValidator(1024), MaxValueValidator(65000)]
    )
    control_port_count = models.PositiveIntegerField(
        default=200, validators=[MinValueValidator(1), MaxValueValidator(2000)]
    )
    media_dir = models.CharField(
        max_length=400,
        validators=[RegexValidator(r"^/(?!.*(^|/)\.\.(/|$)).+", "Enter the full path of a folder, like /srv/media.")],
        help_text="The folder on that machine to which its media workers write.",
    )
    seen_dir = models.CharField(
        "seen here at",
        max_length=400,
        blank=True,
        validators=[RegexValidator(r"^/(?!.*(^|/)\.\.(/|$)).+", "Enter the full path of a folder, like /mnt/media.")],
        help_text="The path at which the web and the job workers see that folder (a mount). "
        "Leave empty if it is the same.",
    )
    labels = models.CharField(
        max_length=200,
        blank=True,
        validators=[label_validator],
        help_text="Labels separated by spaces, e.g. studio-a decklink",
    )
    network = models.CharField(
        max_length=60,
        default="host",
        validators=[
            RegexValidator(r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$", "Enter the name of a Docker network, like host or bridge.")
        ],
        help_text="The Docker network of the media workers. Use host for multicast and listeners.",
    )
    max_workloads = models.PositiveIntegerField(default=16)
    is_draining = models.BooleanField(
        default=False, help_text="The node gets no new work. Running workloads continue until they end."
    )

    # For a process node: who sees its processes (nodes.runtimes.process_home). Nobody else can manage it.
    process_home = models.CharField(max_length=300, blank=True, editable=False)
    missed_checks = models.PositiveIntegerField(default=0, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    engine_version = models.CharField(max_length=60, blank=True, editable=False)
    free_bytes = models.BigIntegerField(null=True, editable=False)
    total_bytes = models.BigIntegerField(null=True, editable=False)
    disk_checked_at = models.DateTimeField(null=True, editable=False)
    # How far its clock is ahead of the database's, as nodes.machines.node_clock measured it.
    clock_offset_seconds = models.FloatField(null=True, editable=False)
    clock_uncertainty_seconds = models.FloatField(null=True, editable=False)
    clock_measured_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        last = (self.control_port_from or 0) + (self.control_port_count or 0) - 1
        if last > 65535:
            raise ValidationError({"control_port_count": "The range ends beyond port 65535."})
        if self.control_host and not is_host(self.control_host):
            raise ValidationError({"control_host": "This is not a host name or address."})

    @property
    def parsed_address(self) -> NodeAddress:
        return parse_node_address(self.address)

    def is_elsewhere(self, here: str) -> bool:
        """Is it a process node of another machine, data folder or container? Then it cannot be managed from here."""
        return self.parsed_address.is_process and self.process_home not in {"", here}

    @property
    def is_in_container(self) -> bool:
        """Do its processes run in a container, and end with it?"""
        return CONTAINER in self.process_home

    @property
    def worker_host(self) -> str:
        return self.control_host or self.parsed_address.host

    @property
    def label_set(self) -> set[str]:
        return set(self.labels.split())


class NodeEvent(Event):
    subject = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")
