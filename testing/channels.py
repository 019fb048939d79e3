"""Channels for tests: clips with numbered frames in the library, a playlist, an output to a file."""

from pathlib import Path
from typing import Any

from testing.counted import pattern
from testing.playing import make_clip


def make_asset(project: Any, media: Path, name: str, seconds: float, picture: str = "") -> Any:
    """A ready asset with one file below `media`; its frames are numbered unless another picture is given."""
    from assets.models import Asset, AssetPart
    from station.clock import database_now

    folder = media / "imports"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.mp4"
    if not path.exists():
        make_clip(path, picture or pattern(), seconds)
        path.chmod(0o644)
    now = database_now()
    asset = Asset.objects.create(
        project=project,
        title=name,
        state=Asset.State.READY,
        state_since_at=now,
        origin=Asset.Origin.IMPORT,
        created_at=now,
        duration_seconds=seconds,
        technical={"pictures": [{"codec": "h264"}], "sounds": [{"codec": "aac"}]},
    )
    AssetPart.objects.create(asset=asset, number=1, path=f"imports/{name}.mp4", seconds=seconds)
    return asset


def make_channel(project: Any, media: Path, *, clips: int = 3, seconds: float = 30.0, **more: Any) -> Any:
    """A small channel with a playlist of clips with numbered frames, and a file as its output."""
    from playout.models import Channel, ChannelOutput, Playlist, PlaylistItem

    playlist = Playlist.objects.create(name="Loop", project=project)
    for number in range(clips):
        asset = make_asset(project, media, f"clip{number}-{seconds:g}", seconds)
        PlaylistItem.objects.create(playlist=playlist, position=number, asset=asset)
    outputs = more.pop("outputs", [("file", "out")])
    channel = Channel.objects.create(
        name=more.pop("name", "One"),
        project=project,
        playlist=playlist,
        picture="640x360p25",
        video_bitrate="600k",
        **more,
    )
    for kind, address in outputs:
        ChannelOutput.objects.create(channel=channel, type=kind, address=address)
    return channel
