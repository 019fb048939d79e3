"""The playout program with real ffmpeg: its output is decoded and checked frame by frame."""

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

BARS = 255  # the frame number that is read from the slate
TEST_SOURCE = {"type": "test", "url": "", "size": "320x180"}


def at(seconds: float) -> str:
    """The time this many seconds from now, as ISO text."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def begins(numbers: list[int]) -> list[int]:
    """The positions at which a clip with numbered frames begins."""
    return [place for place, (number, after) in enumerate(pairwise(numbers)) if (number, after) == (0, 1)]


def test_bad_clips_are_skipped_and_the_output_never_stops(tmp_path: Path) -> None:
    """P-09, P-10: corrupt, empty, missing, text, no sound, no picture; the as-run entries give the reason."""
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
        wait_until(lambda: len(ended(worker)) == len(items), 40, "every item has ended")
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
    assert numbers[first : first + 100] == [*range(50), *range(50)], "no frame between good.mp4 and mute.mp4"
    assert (second, third) == (first + 50, first + 150), "an item without a picture also lasts two seconds"
    assert {after - before for before, after in pairwise(stamps(tmp_path / "out.ts", "v"))} == {3600}


def test_pause_play_skip_cue_and_load(tmp_path: Path) -> None:
    """P-01: transport commands on a channel that is on air."""
    items = clips(tmp_path, 4, 20.0)
    with playout(tmp_path, items, loop=True) as worker:
        worker.wait_for(state="playing", ticks=30)
        worker.ask("/pause", body={})
        held = worker.wait_for(state="paused")["item"]["offset_seconds"]
        ticks = worker.status()["ticks"]
        paused = worker.wait_for(ticks=ticks + 30)
        assert paused["item"]["offset_seconds"] == held, "the offset does not change during a pause"
        worker.ask("/play", body={})
        worker.wait_for(state="playing")
        worker.ask("/skip", body={})
        wait_until(lambda: (worker.status()["item"] or {}).get("key") == "1", 10, "the next item is on air")
        worker.ask("/cue", body={"key": "3"})
        ready = {"key": "3", "title": "clip 3", "is_ready": True}
        wait_until(lambda: worker.status()["next"] == ready, 10, "the cued item is next and ready")
        worker.ask("/skip", body={})
        wait_until(lambda: (worker.status()["item"] or {}).get("key") == "3", 10, "the cued item is on air")
        with pytest.raises(urllib.error.HTTPError) as refused:
            worker.ask("/cue", body={"key": "nonsense"})
        assert refused.value.code == 400
        refused.value.close()
        listed = {"version": "2", "items": [items[3], items[0]], "is_loop": False}
        assert worker.ask("/load", body={"rundown": listed})["rundown"] == "2"
        status = worker.status()
        assert status["item"]["key"] == "3", "the item on air continues"
        assert status["next"]["key"] == "0", "the next item is from the new list"
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


def test_fixed_starts_by_cut_and_by_wait_begin_on_time(tmp_path: Path) -> None:
    """P-09: filler plays until the fixed time; an item that is too late is skipped."""
    items = clips(tmp_path, 4, 4.0)
    make_clip(tmp_path / "filler.mp4", "color=c=red:size=320x180:rate=25", 2)
    filler = asset("filler", "filler.mp4", seconds=2.0)
    items[1] |= {"fixed_at": [at(8.5)], "is_cut": True, "seconds": 1.0}
    items[2] |= {"fixed_at": [at(-60)], "max_late_seconds": 10.0}
    items[3] |= {"fixed_at": [at(12.5)], "is_cut": False}
    with playout(tmp_path, items, filler=filler) as worker:
        wait_until(lambda: ("3", "played") in ended(worker), 30, "the last item has ended")
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


def test_a_fixed_start_by_cut_ends_the_item_before_it(tmp_path: Path) -> None:
    """P-09: within half a second of its time."""
    items = clips(tmp_path, 2, 30.0)
    items[1] |= {"fixed_at": [at(8.0)], "is_cut": True, "seconds": 2.0}
    with playout(tmp_path, items) as worker:
        wait_until(lambda: ("1", "played") in ended(worker), 30, "the second item has ended")
        assert ended(worker) == [("0", "cut"), ("1", "played")]
        cut = asrun(worker)
    late = datetime.fromisoformat(next(entry for entry in cut if entry["key"] == "1")["started_at"]) - (
        datetime.fromisoformat(items[1]["fixed_at"][0])
    )
    assert abs(late.total_seconds()) < 0.5


def test_a_list_is_joined_in_progress(tmp_path: Path) -> None:
    """P-07: right item and offset, by the clock for a day's list, or from the previous generation's last status."""
    items = clips(tmp_path, 3, 20.0)
    with playout(tmp_path, items, begins_at=at(-27)) as worker:
        status = worker.wait_for(state="playing")
        assert status["item"]["key"] == "1"
        assert status["item"]["offset_seconds"] == pytest.approx(8.0, abs=1.0)
        worker.wait_for(ticks=60)
        worker.stop()
    number = next(number for number in numbers_in(tmp_path / "out.ts") if number not in {BARS})
    assert number == pytest.approx(8.0 * 25, abs=25), "the picture is from that position"
    resume = {"key": "0", "offset_seconds": 15.0, "at": at(-8)}
    with playout(tmp_path, items, generation=2, resume=resume) as worker:
        status = worker.wait_for(state="playing")
        assert status["item"]["key"] == "1"
        assert status["item"]["offset_seconds"] == pytest.approx(4.0, abs=1.0)
    resume = {"key": "0", "offset_seconds": 15.0, "at": at(-8), "is_paused": True}
    with playout(tmp_path, items, generation=3, resume=resume) as worker:
        assert worker.wait_for(state="paused", ticks=30)["frames"] > 0


def test_an_encoder_that_keeps_dying_does_not_count_as_progress(tmp_path: Path) -> None:
    """P-03: it is replaced every second but sends no frame, so the age of the last frame grows."""
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
        wait_until(lambda: worker.status()["last_frame_age_seconds"] < 2, 20, "frames go out again")


def test_a_killed_encoder_is_replaced_and_the_time_stamps_continue(tmp_path: Path) -> None:
    """P-09: the item on air continues, and less than three seconds are missing."""
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


def test_the_slate_is_sent_while_a_live_source_is_lost(tmp_path: Path) -> None:
    """P-09: the channel stays on air, and the source is shown again when it returns."""
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
    """P-09: a growing recording, across an interruption of its capture."""
    with capture(tmp_path, TEST_SOURCE) as recording:
        recording.wait_for(state="recording", frames=75)
        growing = {"key": "g", "kind": "growing", "title": "Live from the court", "journal": "take/one.json"}
        with playout(tmp_path, [growing]) as worker:
            worker.wait_for(state="playing", ticks=50)
            os.kill(recording.recorder_pid(), signal.SIGKILL)
            wait_until(lambda: len(recording.status()["parts"]) == 2, 20, "a second part")
            recording.wait_for(frames=recording.status()["frames"] + 100)
            recording.stop()
            wait_until(lambda: ended(worker) == [("g", "played")], 60, "the recording is played to its end")
            entry = next(entry for entry in asrun(worker) if entry["key"] == "g")
    parts = json.loads((tmp_path / "take" / "one.json").read_text())["parts"]
    assert len(parts) == 2
    assert entry["frames"] == pytest.approx(sum(part["frames"] for part in parts), abs=25)


def test_unreported_as_run_entries_are_reported_by_the_next_generation(tmp_path: Path) -> None:
    """P-10: the as-run spool survives a kill."""
    items = clips(tmp_path, 3, 2.0)
    with playout(tmp_path, items) as worker:
        wait_until(lambda: len(ended(worker)) >= 1, 20, "one item has ended")
        worker.process.kill()
    with playout(tmp_path, items, generation=2) as worker:
        worker.wait_for(state="playing")
        known = asrun(worker)
    assert {entry["generation"] for entry in known} == {1, 2}
    earlier = [entry for entry in known if entry["generation"] == 1 and entry["key"]]
    assert (earlier[0]["key"], earlier[0]["reason"], earlier[0]["frames"]) == ("0", "played", 50)


def test_an_isolated_channel_with_a_time_limit_ends(tmp_path: Path) -> None:
    """P-13: nothing asks it for longer than isolation_seconds."""
    with playout(tmp_path, clips(tmp_path, 1, 30.0), isolation_seconds=8.0) as worker:
        worker.wait_for(frames=10)
        worker.wait_end(60)
    assert worker.process.returncode == 5


def test_a_stop_request_on_the_control_port_ends_the_media_worker(tmp_path: Path) -> None:
    """P-05: its engine may be down while it still sends."""
    with playout(tmp_path, clips(tmp_path, 1, 30.0)) as worker:
        worker.wait_for(frames=10)
        worker.ask("/stop", body={})
        assert worker.wait_end(30)["frames"] >= 10
    assert worker.process.returncode == 0


@pytest.mark.parametrize("config", ["", "{}", '{"control": 3}', "nonsense"])
def test_an_invalid_playout_config_has_its_own_exit_code(config: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["python3", "-m", "worker", "playout"], input=config + "\n", capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 64
    assert "bad config" in done.stdout
