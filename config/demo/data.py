"""Demo data: an administrator, a project, this machine as a node, recorders, a schedule and a channel."""

import os
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from config.demo.clips import JOB, ClipsOrder
from jobs.runs.queue import enqueue
from nodes.models import Node
from nodes.runtimes import runtime_for
from nodes.runtimes.base import RuntimeFault
from playout.channels.outputs import OutputType
from playout.models import Channel, ChannelOutput, Playlist
from scheduling.models import Booking, Recorder, Schedule
from scheduling.recorders.sources import SourceType
from station.clock import database_now, house_zone
from station.models import Project

DOCKER_SOCKET = Path("/var/run/docker.sock")
ADMIN_NAME = "admin"


@dataclass(frozen=True)
class Login:
    """`password` is known only when it has just been made; the database stores a hash."""

    username: str
    password: str | None


def ensure_demo() -> Login:
    """Create what is missing; do not touch what people have changed."""
    login = _ensure_admin()
    project, _ = Project.objects.get_or_create(slug="demo", defaults={"name": "Demo"})
    if not Node.objects.exists():
        _make_node()
    if not Recorder.objects.exists():
        Recorder.objects.create(
            name="Demo test pattern",
            project=project,
            source_type=SourceType.TEST,
            picture_size="640x360",
            video_bitrate="800k",
        )
    if not Schedule.objects.exists() and not Booking.objects.exists():
        _make_schedule(project)
    if not Channel.objects.exists() and not Playlist.objects.exists():
        _make_channel(project)
    return login


def _make_channel(project: Project) -> None:
    """Create the demo channel, off air until someone presses Start; a job makes its clips."""
    playlist = Playlist.objects.create(name="Demo loop", project=project)
    channel = Channel.objects.create(
        name="Demo channel", project=project, playlist=playlist, picture=Channel.Picture.P360, video_bitrate="1200k"
    )
    ChannelOutput.objects.create(channel=channel, type=OutputType.HLS, address="demo")
    enqueue(JOB, ClipsOrder(playlist.pk), key=JOB, project_id=project.pk, by="demo")


def _make_schedule(project: Project) -> None:
    """Record one minute every five minutes, so that a newcomer sees recordings start and stop by themselves."""
    recorder = Recorder.objects.create(
        name="Demo clockwork",
        project=project,
        source_type=SourceType.TEST,
        picture_size="320x180",
        video_bitrate="300k",
    )
    now = database_now()
    schedule = Schedule.objects.create(
        name="Every five minutes",
        recorder=recorder,
        kind=Schedule.Repeats.CRON,
        cron="*/5 * * * *",
        length=timedelta(minutes=1),
        first_on=now.astimezone(house_zone()).date(),
        created_by="demo",
        plan_due_at=now,
    )
    # Begin with the next window: a first recording that starts late would look like a fault.
    Schedule.objects.filter(pk=schedule.pk).update(planned_until_at=now)


def _ensure_admin() -> Login:
    if User.objects.filter(is_superuser=True).exists():
        return Login(ADMIN_NAME, None)
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(ADMIN_NAME, password=password)
    return Login(ADMIN_NAME, password)


def _make_node() -> None:
    """Create a node: the local Docker Engine if it answers and has the image, else processes on this machine."""
    settings.RECORDINGS_DIR.mkdir(parents=True, exist_ok=True)
    common = {"media_dir": str(settings.RECORDINGS_DIR), "control_port_from": settings.CONTROL_PORT_FROM}
    node = Node(name="local", address="process", **common)
    if DOCKER_SOCKET.exists():
        docker = Node(name="local", address=f"unix://{DOCKER_SOCKET}", **common)
        _give_to_worker(settings.RECORDINGS_DIR)
        if _can_record(docker):
            node = docker
    node.save()


def _can_record(node: Node) -> bool:
    try:
        runtime_for(node).free_disk()  # needs what a recording needs: the engine, the image and the folder
    except RuntimeFault:
        return False
    return True


def _give_to_worker(folder: Path) -> None:
    """Make the folder writable for the media worker, which is not root in its container. Possible only as root."""
    if os.geteuid() == 0:
        uid, _, gid = settings.WORKER_USER.partition(":")
        os.chown(folder, int(uid), int(gid or uid))
