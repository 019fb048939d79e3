"""Streams as broadcasters send them, in the library: technical data as mediainfo has it, a proxy that looks right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets.files import probing
from assets.files.locations import PROXY, products_dir
from assets.files.sandboxed_ffmpeg import Media
from assets.processing import products
from testing.signals import broadcast_streams as streams
from testing.signals.verdicts import mediainfo

pytestmark = [pytest.mark.signals, pytest.mark.usefixtures("signal_tools")]

CODECS = {"MPEG Video": "mpeg2video", "AVC": "h264", "HEVC": "hevc", "MPEG Audio": "mp2", "AC-3": "ac3", "AAC": "aac"}
LANGUAGES = {"de": "deu", "en": "eng", None: ""}
STREAMS = [
    streams.sd_interlaced,
    streams.hd_interlaced,
    streams.hevc_50p,
    streams.two_languages,
    streams.four_sounds,
    streams.surround,
    streams.audio_only,
    streams.video_only,
]


def as_ours(tracks: list[dict[str, Any]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Pictures and sounds of mediainfo in our words."""
    pictures, sounds = [], []
    for track in tracks:
        if track["@type"] == "Video":
            is_interlaced = track.get("ScanType", "Progressive") != "Progressive"
            size = int(track["Width"]), int(track["Height"])
            shape = round(float(track["DisplayAspectRatio"]), 2)
            pictures.append((CODECS[track["Format"]], *size, float(track["FrameRate"]), is_interlaced, shape))
        elif track["@type"] == "Audio":
            language = LANGUAGES[track.get("Language")]
            sounds.append((CODECS[track["Format"]], int(track["SamplingRate"]), int(track["Channels"]), language))
    return pictures, sounds


@pytest.mark.parametrize("make", STREAMS)
def test_technical_data_agree_with_mediainfo(make: Callable[[Path], None], tmp_path: Path) -> None:
    """A-05."""
    path = tmp_path / "stream.ts"
    make(path)
    found = probing.probe(path)
    pictures, sounds = as_ours(mediainfo(path))
    shapes = [round(each.shown_size[0] / each.shown_size[1], 2) for each in found.pictures]
    assert [
        (each.codec, each.width, each.height, each.fps, each.is_interlaced, shape)
        for each, shape in zip(found.pictures, shapes, strict=True)
    ] == pictures
    assert [(each.codec, each.sample_rate, each.channels, each.language) for each in found.sounds] == sounds
    assert found.duration_seconds == pytest.approx(streams.SECONDS, abs=0.1)


@pytest.mark.parametrize("make", [streams.clock_jump_forward, streams.clock_jump_back, streams.clock_wrap])
def test_the_length_of_a_stream_whose_clock_jumps_is_what_it_holds(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    """A-05: not the difference of its first and last time stamp."""
    path = tmp_path / "stream.ts"
    make(path)
    assert probing.probe(path).duration_seconds == pytest.approx(streams.SECONDS, abs=0.2)


def test_the_proxy_of_an_interlaced_4_3_stream_is_progressive_and_has_its_shape(tmp_path: Path) -> None:
    """A-05: 720 by 576 pixels are shown as 4:3."""
    path = tmp_path / "stream.ts"
    streams.sd_interlaced(path)
    found = probing.probe(path)
    products.make_proxy(1, Media((path,)), size=found.pictures[0].shown_size, has_sound=True)
    proxy = probing.probe(products_dir(1) / PROXY)
    assert (proxy.pictures[0].width, proxy.pictures[0].height, proxy.pictures[0].is_interlaced) == (480, 360, False)
    assert proxy.pictures[0].shown_size == (480, 360)
    assert proxy.duration_seconds == pytest.approx(streams.SECONDS, abs=0.2)
