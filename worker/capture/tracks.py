"""The tracks of a source: which of them a recording keeps, and what its container cannot hold."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from worker.media.ffmpeg import Binary
from worker.media.ffmpeg_versions import keeps_sparse_tracks
from worker.wire.configuration import ProbeConfig, Source

TRANSPORT_STREAMS = ("udp", "srt", "rtp")
WORDS = {
    "dvb_teletext": "teletext",
    "dvb_subtitle": "DVB subtitles",
    "scte_35": "SCTE-35",
    "timed_id3": "ID3",
    "klv": "KLV",
}
_PROGRAMME = re.compile(r"^\s+Program (\d+)")
_TRACK = re.compile(r"^\s+Stream #0:\d+(?:\[\w+\])?(?:\((\w+)\))?: (\w+): (\w+)")


@dataclass(frozen=True)
class Track:
    """`kind` is Video, Audio, Subtitle, Data or Unknown."""

    kind: str
    codec: str
    language: str = ""
    programme: int | None = None

    def __str__(self) -> str:
        name = WORDS.get(self.codec, self.codec)
        return f"{name} ({self.language})" if self.language else name


def kinds_kept(source: Source, container: str, binary: Binary) -> str:
    """ffmpeg's letters for the kinds of tracks: MP4 holds no teletext, DVB subtitles or SCTE-35."""
    can_hold = container == "mpegts" and source.type in TRANSPORT_STREAMS
    return "vasd" if can_hold and keeps_sparse_tracks(binary) else "va"


def read_tracks(described: Iterable[str]) -> list[Track]:
    """From what ffmpeg prints about its input."""
    found: list[Track] = []
    programme: int | None = None
    for line in described:
        if match := _PROGRAMME.match(line):
            programme = int(match[1])
        elif "No Program" in line:
            programme = None
        elif match := _TRACK.match(line):
            found.append(Track(match[2], match[3], match[1] or "", programme))
    return found


def unrecorded(tracks: Iterable[Track], config: ProbeConfig, binary: Binary) -> list[str]:
    """The tracks of the programme that will not be in the file."""
    kept = kinds_kept(config.source, config.container, binary)
    wanted = [track for track in tracks if not config.programme or track.programme == config.programme]
    return [str(track) for track in wanted if track.kind[0].lower() not in kept]
