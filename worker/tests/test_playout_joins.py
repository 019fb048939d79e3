"""Ninety seconds of joins between clips, measured on the output: frames, time stamps, lip sync and drift."""

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testing.claps import claps_in, make_clap
from testing.counted import numbers_in, pattern
from testing.playing import asrun, asset, make_clip, playout, stamps
from testing.waiting import wait_until

pytestmark = [pytest.mark.alone, pytest.mark.timeout(1200)]

SECONDS = 1.8
FRAMES = 45
# Takes ninety seconds; with AIRLOCK_JOIN_ROUNDS=167 ten minutes.
ROUNDS = int(os.environ.get("AIRLOCK_JOIN_ROUNDS", "25"))
# Other sizes, frame rates, sample rates and containers, played between clips in the channel's format.
OTHERS = [
    ("b.ts", "testsrc2=size=720x576:rate=25", ("-ar", "44100")),
    ("c.mp4", "testsrc2=size=640x480:rate=30000/1001", ("-ar", "32000")),
    ("d.mkv", "testsrc2=size=1280x720:rate=50", ()),
    ("e.mp4", "testsrc2=size=176x144:rate=15", ("-ar", "22050", "-ac", "1")),
    ("f.mov", "testsrc2=size=480x640:rate=24", ()),
]


def test_fifty_mixed_clips_play_without_a_missing_or_repeated_frame(tmp_path: Path) -> None:
    """P-09: no gap in the time stamps and no drift; bad clips are skipped."""
    conforming = [("a.mp4", ()), ("a.ts", ("-muxdelay", "0")), ("a.mkv", ("-ar", "44100"))]
    for name, more in conforming:
        make_clip(tmp_path / name, pattern(), SECONDS, *more)
    for name, picture, more in OTHERS:
        make_clip(tmp_path / name, picture, SECONDS, *more)
    (tmp_path / "corrupt.mp4").write_bytes(b"\x00\x01corrupt" * 2000)
    names = []
    for number in range(ROUNDS):
        names += [conforming[number % len(conforming)][0], OTHERS[number % len(OTHERS)][0]]
    names[20:20] = ["corrupt.mp4", "missing.mp4"]
    items = [asset(str(number), name, seconds=SECONDS) for number, name in enumerate(names)]
    with playout(tmp_path, items) as worker:
        worker.wait_for(state="playing", ticks=25)
        before = _ahead_of_the_clock(worker)
        longest = 2 * SECONDS * ROUNDS + 60
        wait_until(lambda: _last(worker) == len(items) - 1, longest, "the last clip has ended", pause=0.5)
        drift = _ahead_of_the_clock(worker) - before
        entries = asrun(worker)
        final = worker.stop()
    assert abs(drift) < 0.04, f"{drift * 1000:.0f} ms of drift, more than one frame (40 ms)"
    # The slate is sent before the first clip is open and after the list has ended, but never in between.
    aired = [place for place, entry in enumerate(entries) if entry["key"]]
    slates = [entry["note"] for entry in entries[aired[0] : aired[-1]] if not entry["key"]]
    print(f"slowest check {final['slowest_look_seconds']} s, resyncs {final['resyncs']}, drift {drift * 1000:.0f} ms")
    assert slates == [], f"the slate was on {len(slates)} times between clips, {final}"
    assert final["dropped"] == final["repeats"] == final["encoder_restarts"] == 0
    played = {entry["key"]: entry for entry in entries if entry["key"]}
    ends = {key: (entry["reason"], entry["note"]) for key, entry in played.items() if entry["reason"] != "played"}
    assert {key: reason for key, (reason, _) in ends.items()} == {"20": "bad", "21": "bad"}, ends
    numbers = numbers_in(tmp_path / "out.ts")
    begin = next(place for place, number in enumerate(numbers) if number == 0)
    good = [name for name in names if name not in {"corrupt.mp4", "missing.mp4"}]
    for place, name in enumerate(good):
        found = numbers[begin + place * FRAMES : begin + (place + 1) * FRAMES]
        if name.startswith("a."):
            assert found == list(range(FRAMES)), f"clip {place} ({name}): {found}"
        else:
            assert len(found) == FRAMES
    assert {after - before for before, after in pairwise(stamps(tmp_path / "out.ts", "v"))} == {3600}
    sound = [after - before for before, after in pairwise(stamps(tmp_path / "out.ts", "a"))]
    assert set(sound) <= {1919, 1920, 1921}


def _ahead_of_the_clock(worker: Any) -> float:
    """Seconds played minus seconds passed. The maximum over one second of polls is the value just after a frame."""
    looks = []
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        looks.append(worker.status()["ticks"] / 25 - time.time())
    return max(looks)


def _last(worker: Any) -> int:
    keys = [int(entry["key"]) for entry in asrun(worker) if entry["key"] and entry["ended_at"]]
    return max(keys, default=-1)


def test_sound_and_picture_stay_in_sync(tmp_path: Path) -> None:
    """P-09: less than 40 ms apart after many joins, whatever start times the containers give."""
    for name, more in (("a.mp4", ()), ("b.ts", ()), ("c.mkv", ("-ar", "44100"))):
        make_clap(tmp_path / name, *more)
    names = ["a.mp4", "b.ts", "c.mkv"] * 3
    items = [asset(str(number), name, seconds=2.0) for number, name in enumerate(names)]
    with playout(tmp_path, items) as worker:
        wait_until(lambda: _last(worker) == len(items) - 1, 90, "the last clip has ended", pause=0.5)
        worker.stop()
    flashes, beeps = claps_in(tmp_path / "out.ts")
    assert len(flashes) == len(beeps) == len(items), (flashes, beeps)
    apart = [abs(seen - heard) for seen, heard in zip(flashes, beeps, strict=True)]
    print(f"sound and picture apart: at most {1000 * max(apart):.0f} ms, at the end {1000 * apart[-1]:.0f} ms")
    assert max(apart) < 0.04
