"""What is recorded and played in a chaos run: bookings at random times, a channel, and a backlog of missed bookings."""

import random
from datetime import timedelta

from django.conf import settings

from playout.models import Channel, ChannelOutput, Playlist, PlaylistItem
from scheduling.bookings.making import book, draft
from scheduling.models import Booking
from station.clock import database_now
from station.models import Project
from testing.channels import make_asset
from testing.chaos.recorders import LABEL, make_recorder

LENGTH = timedelta(seconds=20)
FIRST_SECONDS = 10.0
PICTURE = "testsrc2=size=160x90:rate=25"
CLIP_SECONDS = 30.0
BACKLOG = 1000
BACKLOG_RECORDERS = 10


def make_project(name: str) -> Project:
    return Project.objects.create(name=name, slug=name.lower())


def book_all(project: Project, count: int, seconds: float, choice: random.Random) -> None:
    """Bookings over the whole run, each on its own recorder. A start that leaves two seconds still counts."""
    now = database_now()
    for number in range(count):
        start = now + timedelta(seconds=FIRST_SECONDS + choice.uniform(0, max(1.0, seconds - 30)))
        book(make_recorder(f"Cam {number}", project), start, start + LENGTH, now=now, title=f"show {number}")
    Booking.objects.update(min_useful_seconds=2)


def stage_channel(project: Project, port: int) -> Channel:
    """A small channel with two clips in a loop and a UDP output. The scheduler puts it on air."""
    playlist = Playlist.objects.create(name="Loop", project=project)
    for number in range(2):
        asset = make_asset(project, settings.RECORDINGS_DIR, f"clip{number}", CLIP_SECONDS, picture=PICTURE)
        PlaylistItem.objects.create(playlist=playlist, position=number, asset=asset)
    channel = Channel.objects.create(
        name="One",
        project=project,
        playlist=playlist,
        picture="160x90p25",
        video_bitrate="200k",
        node_labels=LABEL,
        is_wanted=True,
    )
    ChannelOutput.objects.create(channel=channel, type="udp", address=f"udp://127.0.0.1:{port}")
    return channel


class Backlog:
    """Bookings of the last days that nobody has started, in a project and on recorders of their own."""

    def __init__(self) -> None:
        self.project = make_project("Backlog")
        self.recorders = [make_recorder(f"Old {number}", self.project) for number in range(BACKLOG_RECORDERS)]

    def stage(self) -> None:
        now, rows = database_now(), []
        for number in range(BACKLOG):
            starts_at = now - timedelta(hours=1) - number * timedelta(minutes=5)
            recorder = self.recorders[number % BACKLOG_RECORDERS]
            ends_at = starts_at + timedelta(minutes=4)
            rows.append(draft(recorder, starts_at, ends_at, now=now, by="", title=f"old {number}"))
        Booking.objects.bulk_create(rows)
