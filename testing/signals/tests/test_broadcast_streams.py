"""Streams as broadcasters send them are recorded whole: every track, the right length, no invented gap."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import capture
from testing.signals import broadcast_streams as streams
from testing.signals.verdicts import decoded, mediainfo
from testing.waiting import wait_until

pytestmark = [pytest.mark.signals, pytest.mark.paced, pytest.mark.usefixtures("signal_tools")]

night = pytest.mark.night
CASES = [
    streams.sd_interlaced,
    streams.two_languages,
    streams.clock_jump_forward,
    pytest.param(streams.hd_interlaced, marks=night),
    pytest.param(streams.hevc_50p, marks=night),
    pytest.param(streams.four_sounds, marks=night),
    pytest.param(streams.surround, marks=night),
    pytest.param(streams.audio_only, marks=night),
    pytest.param(streams.video_only, marks=night),
    pytest.param(streams.clock_jump_back, marks=night),
    pytest.param(streams.clock_wrap, marks=night),
    pytest.param(streams.new_resolution, marks=night),
    pytest.param(streams.new_pids, marks=night),
]
# What mediainfo says about a track, and what must be the same in the recording.
FACTS = ("@type", "Format", "Width", "Height", "ScanType", "DisplayAspectRatio", "Language", "Channels")
# Until the first key frame of the stream, and what is still on its way at the end.
EDGES = 2.0
# New PIDs need a new ffmpeg.
RESTART = 3.0


def facts(path: Path) -> list[tuple[Any, ...]]:
    kinds = ("Video", "Audio", "Text")
    return [tuple(track.get(name) for name in FACTS) for track in mediainfo(path) if track["@type"] in kinds]


@pytest.mark.parametrize("make", CASES)
def test_a_broadcast_stream_is_recorded_with_all_its_tracks(make: Callable[[Path], None], tmp_path: Path) -> None:
    """R-15, R-16: compared with mediainfo; the length comes from what is there, also when the clock jumps."""
    original = tmp_path / "original.ts"
    make(original)
    sender = streams.replay(original, tmp_path)
    with capture(tmp_path, sender.source) as worker:
        with sender.on_air():
            device = sender.device.process
            assert device is not None
            wait_until(lambda: device.poll() is not None, 60, "the file was sent")
        final = worker.stop()

    recorded = [path for path in worker.files() if path.stat().st_size]
    assert all(facts(path) == facts(original) for path in recorded if make is not streams.new_resolution)
    seconds = sum(part["seconds"] for part in final["parts"])
    assert streams.SECONDS - EDGES < seconds < streams.SECONDS + 0.5, final
    gaps = [gap for gap in final["gaps"] if gap["reason"] != "no_signal"]
    assert sum(gap["seconds"] for gap in gaps) < (RESTART if make is streams.new_pids else 1.0), gaps
    held = decoded(recorded)
    if make is not streams.audio_only:
        rate = 50 if make is streams.hevc_50p else 25
        assert held.frames / rate == pytest.approx(seconds, abs=EDGES), held
    if make is not streams.video_only:
        assert held.sound_seconds == pytest.approx(seconds, abs=EDGES), held
