"""The playout program against real ffmpeg: what goes out is decoded and counted, frame by frame."""

import json
import os
import signal
import subprocess
import urllib.error
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testing.capturing import capture
from testing.counted import counted_sender, numbers_in, pattern
from testing.media import environment, ffmpeg, free_port
from testing.playing import asrun, asset, clips, ended, make_clip, playout, stamps
from testing.processes import children_of, command_of
from testing.waiting import wait_until

pytestmark = pytest.mark.paced

BARS = 255  # what the counter's strip reads when the slate is on
TEST_SOURCE = {"type": "test", "url": "", "size": "320x180"}


def at(seconds: float) -> str:
    """A moment that far from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def begins(numbers: list[int]) -> list[int]:
    """Where a counted clip begins in what was decoded."""
    return [place for place, (number, after) in enumerate(pairwise(numbers)) if (number, after) == (0, 1)]


def test_bad_clips_are_passed_over_and_the_output_never_stops(tmp_path: Path) -> None:
    """P-09, P-10: corrupt, empty, missing, text, without sound, without picture; as-run says what happened."""
    make_clip(tmp_path / "good.mp4", pattern(), 2)
    make_clip(tmp_path / "mute.mp4", pattern(), 2, sound="")
    command = [ffmpeg(), "-loglevel", "error", "-f", "lavfi", "-i", "sine=frequency=440", "-t", "2"]
    subprocess.run([*command, str(tmp_path / "sound.wav")], env=environment(), check=True, timeout=30)
    (tmp_path / "corrupt.mp4").write_bytes(os.urandom(50_000))
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("this is no film\n" * 500)
    names = ["good.mp4", "corrupt.mp4", "empty.mp4", "missing.mp4", "mute.mp4", "text.mp4", "sound.wav", "good.mp4"]
    items = [asset(f"{number}", name, seconds=2.0) for number, name in enumerate(names)]
    with playout(tmp_path, items) as worker:
        wait_until(lambda: len(ended(worker)) == len(items), 40, "the list is over")
        entries = {entry["key"]: entry for entry in asrun(worker) if entry["key"]}
        final = worker.stop()
    reasons = {names[int(key)]: entry["reason"] for key, entry in entries.items()}
    assert reasons == {
        "good.mp4": "played",
        "corrupt.mp4": "bad",
        "empty.mp4": "bad",
        "missing.mp4": "bad",
        "mute.mp4": "played",
        "text.mp4": "bad",
        "sound.wav": "played",
    }
    assert "is missing" in entries["3"]["note"]
    assert "empty" in entries["2"]["note"]
    assert all(entries[str(number)]["note"] for number, name in enumerate(names) if reasons[name] == "bad")
    assert final["encoder_restarts"] == final["dropped"] == 0
    numbers = numbers_in(tmp_path / "out.ts")
    first, second, third = begins(numbers)
    assert numbers[first : first + 100] == [*range(50), *range(50)], "no frame between good and mute"
    assert (second, third) == (first + 50, first + 150), "sound alone takes its two seconds, too"
    assert {after - before for before, after in pairwise(stamps(tmp_path / "out.ts", "v"))} == {3600}


def test_pause_holds_skip_goes_on_cue_chooses_and_a_new_list_takes_over(tmp_path: Path) -> None:
    """P-01: transport."""
    items = clips(tmp_path, 4, 20.0)
    with playout(tmp_path, items, loop=True) as worker:
        worker.wait_for(state="playing", ticks=30)
        worker.ask("/pause", body={})
        held = worker.wait_for(state="paused")["item"]["offset_seconds"]
        ticks = worker.status()["ticks"]
        paused = worker.wait_for(ticks=ticks + 30)
        assert paused["item"]["offset_seconds"] == held, "time stands still"
        worker.ask("/play", body={})
        worker.wait_for(state="playing")
        worker.ask("/skip", body={})
        wait_until(lambda: (worker.status()["item"] or {}).get("key") == "1", 10, "the next one is on")
        worker.ask("/cue", body={"key": "3"})
        ready = {"key": "3", "title": "clip 3", "is_ready": True}
        wait_until(lambda: worker.status()["next"] == ready, 10, "cued, and open already")
        worker.ask("/skip", body={})
        wait_until(lambda: (worker.status()["item"] or {}).get("key") == "3", 10, "the cued one is on")
        with pytest.raises(urllib.error.HTTPError) as refused:
            worker.ask("/cue", body={"key": "nonsense"})
        assert refused.value.code == 400
        refused.value.close()
        listed = {"version": "2", "items": [items[3], items[0]], "is_loop": False}
        assert worker.ask("/load", body={"rundown": listed})["rundown"] == "2"
        status = worker.status()
        assert status["item"]["key"] == "3", "what is on stays on"
        assert status["next"]["key"] == "0", "what follows is from the new list"
        for bad in (
            {},
            {"rundown": {"items": 3}},
            {"rundown": {"version": "3", "items": [{"key": "x", "kind": "no"}]}},
        ):
            with pytest.raises(urllib.error.HTTPError) as wrong:
                worker.ask("/load", body=bad)
            assert wrong.value.code == 400
            wrong.value.close()
        assert worker.status()["rundown"] == "2"
        assert ended(worker) == [("0", "skipped"), ("1", "skipped")]


def test_a_fixed_start_cuts_on_time_and_one_that_waits_follows(tmp_path: Path) -> None:
    """P-09: hard starts by cut or wait; filler before a start whose time has not come; too late is left out."""
    items = clips(tmp_path, 4, 4.0)
    make_clip(tmp_path / "filler.mp4", "color=c=red:size=320x180:rate=25", 2)
    filler = asset("filler", "filler.mp4", seconds=2.0)
    items[1] |= {"fixed_at": [at(8.5)], "is_cut": True, "seconds": 1.0}
    items[2] |= {"fixed_at": [at(-60)], "max_late_seconds": 10.0}
    items[3] |= {"fixed_at": [at(12.5)], "is_cut": False}
    with playout(tmp_path, items, filler=filler) as worker:
        wait_until(lambda: ("3", "played") in ended(worker), 30, "all went out")
        entries = asrun(worker)
        worker.stop()
    by_key = {entry["key"]: entry for entry in entries if entry["key"] and entry["kind"] == "asset"}
    assert by_key["1"]["reason"] == "played"
    for key in ("1", "3"):
        planned = datetime.fromisoformat(items[int(key)]["fixed_at"][0])
        late = (datetime.fromisoformat(by_key[key]["started_at"]) - planned).total_seconds()
        assert -0.05 <= late < 1.0, f"{key} began {late:.3f} s late"
    assert by_key["2"]["reason"] == "too late"
    assert {entry["kind"] for entry in entries} >= {"asset", "filler"}
    assert next(entry for entry in entries if entry["kind"] == "filler")["frames"] > 0


def test_a_cut_ends_the_item_before_it(tmp_path: Path) -> None:
    """P-09: hard start by cut."""
    items = clips(tmp_path, 2, 30.0)
    items[1] |= {"fixed_at": [at(8.0)], "is_cut": True, "seconds": 2.0}
    with playout(tmp_path, items) as worker:
        wait_until(lambda: ("1", "played") in ended(worker), 30, "it went out")
        assert ended(worker) == [("0", "cut"), ("1", "played")]
        cut = asrun(worker)
    late = datetime.fromisoformat(next(entry for entry in cut if entry["key"] == "1")["started_at"]) - (
        datetime.fromisoformat(items[1]["fixed_at"][0])
    )
    assert abs(late.total_seconds()) < 0.5


def test_it_joins_in_progress(tmp_path: Path) -> None:
    """P-07: right item, right offset; from a day's list by the clock, from a predecessor by its last word."""
    items = clips(tmp_path, 3, 20.0)
    with playout(tmp_path, items, begins_at=at(-27)) as worker:
        status = worker.wait_for(state="playing")
        assert status["item"]["key"] == "1"
        assert status["item"]["offset_seconds"] == pytest.approx(8.0, abs=1.0)
        worker.wait_for(ticks=60)
        worker.stop()
    number = next(number for number in numbers_in(tmp_path / "out.ts") if number not in {BARS})
    assert number == pytest.approx(8.0 * 25, abs=25), "the picture itself is from there"
    resume = {"key": "0", "offset_seconds": 15.0, "at": at(-8)}
    with playout(tmp_path, items, generation=2, resume=resume) as worker:
        status = worker.wait_for(state="playing")
        assert status["item"]["key"] == "1"
        assert status["item"]["offset_seconds"] == pytest.approx(4.0, abs=1.0)
    resume = {"key": "0", "offset_seconds": 15.0, "at": at(-8), "is_paused": True}
    with playout(tmp_path, items, generation=3, resume=resume) as worker:
        assert worker.wait_for(state="paused", ticks=30)["frames"] > 0


def test_an_encoder_that_dies_again_and_again_is_no_sign_of_life(tmp_path: Path) -> None:
    """P-03: health is progress. Replaced every second, it gives nothing, and its age says so."""
    broken = tmp_path / "broken"
    wrapper = tmp_path / "ffmpeg.sh"
    wrapper.write_text(f'#!/bin/sh\n[ -e {broken} ] && exit 1\nGCONV_PATH=/dev/null exec {ffmpeg()} "$@"\n')
    wrapper.chmod(0o755)
    items = [{"key": "1", "kind": "slate", "title": "Break", "seconds": 300.0}]
    with playout(tmp_path, items, environment={"AIRLOCK_FFMPEG": str(wrapper)}) as worker:
        worker.wait_for(state="playing", frames=25)
        broken.touch()
        encoder = next(pid for pid in children_of(worker.process.pid) if "rawvideo -pix_fmt" in command_of(pid))
        os.kill(encoder, signal.SIGKILL)
        status = worker.wait_for(encoder_restarts=3, last_frame_age_seconds=3.0)
        assert status["last_frame_age_seconds"] >= 3.0
        broken.unlink()
        wait_until(lambda: worker.status()["last_frame_age_seconds"] < 2, 20, "it is back")


def test_a_killed_encoder_is_replaced_and_the_time_stamps_go_on(tmp_path: Path) -> None:
    """P-09: filler instead of ever stopping; nothing but the worker's own end takes it off air."""
    with playout(tmp_path, clips(tmp_path, 1, 30.0)) as worker:
        worker.wait_for(frames=50)
        encoder = next(pid for pid in children_of(worker.process.pid) if "rawvideo -pix_fmt" in command_of(pid))
        os.kill(encoder, signal.SIGKILL)
        status = worker.wait_for(encoder_restarts=1)
        worker.wait_for(frames=status["frames"] + 75)
        assert worker.status()["item"]["key"] == "0"
        worker.stop()
    times = stamps(tmp_path / "out.ts", "v")
    jumps = [after - before for before, after in pairwise(times) if after - before != 3600]
    assert 0 < len(jumps) <= 2
    assert 0 < sum(jumps) < 3 * 90_000


def test_a_lost_live_source_shows_the_slate_and_comes_back(tmp_path: Path) -> None:
    """P-09: live source; a source that goes away takes nothing off air."""
    port = free_port()
    source = {"type": "udp", "url": f"udp://127.0.0.1:{port}?timeout=1000000"}
    live = {"key": "live", "kind": "live", "title": "OB van"}
    with playout(tmp_path, [live], sources={"live": source}) as worker:
        with counted_sender(port):
            wait_until(lambda: _signal(worker) is True, 30, "the picture is there")
        wait_until(lambda: _signal(worker) is False, 30, "the picture is gone")
        ticks = worker.status()["ticks"]
        assert worker.wait_for(ticks=ticks + 50)["dropped"] == 0
        with counted_sender(port):
            wait_until(lambda: _signal(worker) is True, 30, "the picture is back")
            worker.wait_for(ticks=worker.status()["ticks"] + 25)
        worker.stop()
    numbers = numbers_in(tmp_path / "out.ts")
    assert BARS in numbers
    assert len(set(numbers)) > 20


def _signal(worker: Any) -> bool | None:
    item = worker.status().get("item")
    return bool(item["has_signal"]) if item else None


def test_a_recording_is_played_while_it_grows(tmp_path: Path) -> None:
    """P-09: growing recording, through an interruption of its capture."""
    with capture(tmp_path, TEST_SOURCE) as recording:
        recording.wait_for(state="recording", frames=75)
        growing = {"key": "g", "kind": "growing", "title": "Live from the court", "journal": "take/one.json"}
        with playout(tmp_path, [growing]) as worker:
            worker.wait_for(state="playing", ticks=50)
            os.kill(recording.recorder_pid(), signal.SIGKILL)
            wait_until(lambda: len(recording.status()["parts"]) == 2, 20, "a second part")
            recording.wait_for(frames=recording.status()["frames"] + 100)
            recording.stop()
            wait_until(lambda: ended(worker) == [("g", "played")], 60, "it is played to its end")
            entry = next(entry for entry in asrun(worker) if entry["key"] == "g")
    parts = json.loads((tmp_path / "take" / "one.json").read_text())["parts"]
    assert len(parts) == 2
    assert entry["frames"] == pytest.approx(sum(part["frames"] for part in parts), abs=25)


def test_what_could_not_be_reported_is_reported_by_the_next_generation(tmp_path: Path) -> None:
    """P-10: the as-run spool survives a kill."""
    items = clips(tmp_path, 3, 2.0)
    with playout(tmp_path, items) as worker:
        wait_until(lambda: len(ended(worker)) >= 1, 20, "something went out")
        worker.process.kill()
    with playout(tmp_path, items, generation=2) as worker:
        worker.wait_for(state="playing")
        known = asrun(worker)
    assert {entry["generation"] for entry in known} == {1, 2}
    earlier = [entry for entry in known if entry["generation"] == 1 and entry["key"]]
    assert (earlier[0]["key"], earlier[0]["reason"], earlier[0]["frames"]) == ("0", "played", 50)


def test_a_channel_that_must_not_go_on_alone_ends(tmp_path: Path) -> None:
    """P-13: isolation."""
    with playout(tmp_path, clips(tmp_path, 1, 30.0), isolation_seconds=8.0) as worker:
        worker.wait_for(frames=10)
        worker.wait_end(60)
    assert worker.process.returncode == 5


def test_it_ends_when_it_is_told_to_by_its_own_port(tmp_path: Path) -> None:
    """P-05: its engine may be away while it still sends."""
    with playout(tmp_path, clips(tmp_path, 1, 30.0)) as worker:
        worker.wait_for(frames=10)
        worker.ask("/stop", body={})
        assert worker.wait_end(30)["frames"] >= 10
    assert worker.process.returncode == 0


@pytest.mark.parametrize("config", ["", "{}", '{"control": 3}', "nonsense"])
def test_a_config_that_makes_no_sense_ends_with_its_own_code(config: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["python3", "-m", "worker", "playout"], input=config + "\n", capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 64
    assert "bad config" in done.stdout
