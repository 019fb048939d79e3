"""The position in a list at a given time, the order of its items, and sound alignment. No process is started."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.playout.inputs.decoder_process import FIRST_PICTURE, FIRST_SOUND
from worker.playout.inputs.sound import Sound
from worker.playout.list_timing import Place, calls, first, follower, is_too_late, locate, waits_for
from worker.playout.loaded_config import Item, Rundown
from worker.playout.picture import SAMPLE_BYTES, bars, plain
from worker.wire.picture import Format


def item(key: str, seconds: float | None = 10.0, *fixed: float, **more: object) -> Item:
    return Item(key, "asset", key, seconds=seconds, fixed_at=fixed, **more)  # type: ignore[arg-type]


def rundown(*items: Item, is_loop: bool = False) -> Rundown:
    return Rundown("1", items, is_loop)


PLAIN = rundown(item("a"), item("b"), item("c"))
LOOP = rundown(item("a"), item("b"), item("c"), is_loop=True)


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(0, Place(0, 0)), (9, Place(0, 9)), (10, Place(1, 0)), (25, Place(2, 5)), (30, Place(None)), (500, Place(None))],
)
def test_a_list_is_joined_at_the_position_given_by_the_clock(seconds: float, place: Place) -> None:
    """P-07."""
    assert locate(PLAIN, 0, 1000.0, 1000.0 + seconds) == place


def test_a_loop_is_joined_at_the_right_position_after_any_time() -> None:
    """P-07: right item and offset, even after months."""
    assert locate(LOOP, 0, 1000.0, 1000.0 + 30 * 1_000_000 + 14) == Place(1, 4.0)
    assert locate(LOOP, 2, 1000.0, 1012.0) == Place(0, 2.0)


def test_a_fixed_start_cuts_the_item_on_air_or_waits_for_its_time() -> None:
    """P-09: fixed starts by cut and by wait."""
    cut = rundown(item("a"), item("news", 10.0, 1005.0), item("c"))
    assert locate(cut, 0, 1000.0, 1004.0) == Place(0, 4.0)
    assert locate(cut, 0, 1000.0, 1007.0) == Place(1, 2.0)
    assert locate(cut, 0, 1000.0, 1016.0) == Place(2, 1.0)
    late = rundown(item("a"), item("news", 10.0, 1015.0), item("c"))
    assert locate(late, 0, 1000.0, 1012.0) == Place(1, 0.0, 1015.0)
    assert locate(late, 0, 1000.0, 1016.0) == Place(1, 1.0)
    waits = rundown(item("a"), item("news", 10.0, 1005.0, is_cut=False))
    assert locate(waits, 0, 1000.0, 1012.0) == Place(1, 2.0)


def test_a_loop_skips_items_with_a_fixed_start() -> None:
    """P-09."""
    looped = rundown(item("a"), item("news", 10.0, 5000.0), item("c"), is_loop=True)
    assert follower(looped, 0) == 2
    assert follower(looped, 2) == 0
    assert first(looped) == 0
    assert first(rundown(item("news", 10.0, 5000.0), is_loop=True)) is None
    assert [call.moment for call in calls(looped, 0, 6000)] == [5000.0]
    assert calls(looped, 5000, 6000) == []


def test_a_fixed_start_waits_for_its_time_and_expires_after_its_maximum_lateness() -> None:
    """P-09: max_late_seconds; without it an item is never too late."""
    late = item("news", 10.0, 1000.0, max_late_seconds=30.0)
    assert waits_for(rundown(late), 0, 990.0) == 1000.0
    assert waits_for(rundown(late), 0, 1000.0) is None
    assert not is_too_late(late, 1029.0)
    assert is_too_late(late, 1031.0)
    assert not is_too_late(item("news", 10.0, 1000.0), 9999.0)


lengths = st.lists(st.floats(0.04, 4000), min_size=1, max_size=8)


@given(lengths, st.booleans(), st.floats(0, 1e6), st.floats(0, 100))
def test_joining_later_gives_the_same_position_as_joining_and_playing(
    spans: list[float], loops: bool, seconds: float, more: float
) -> None:
    """P-07: the position at t + more is the position at t, played for `more` seconds."""
    listed = rundown(*(item(str(number), span) for number, span in enumerate(spans)), is_loop=loops)
    place = locate(listed, 0, 0.0, seconds)
    if place.index is None:
        assert not loops
        assert seconds >= sum(spans) - 1e-6 * len(spans)
        return
    assert 0 <= place.offset_seconds <= spans[place.index] + 1e-6
    later = locate(listed, place.index, seconds - place.offset_seconds, seconds + more)
    direct = locate(listed, 0, 0.0, seconds + more)
    if later.index is not None and direct.index is not None:
        at = [sum(spans[: each.index]) + each.offset_seconds for each in (later, direct) if each.index is not None]
        apart = abs(at[0] - at[1]) % sum(spans)
        assert min(apart, sum(spans) - apart) < 0.001


@given(st.integers(-3000, 3000), st.lists(st.integers(1, 2000), min_size=1, max_size=30), st.integers(0, 40))
def test_late_sound_is_never_shifted(start: int, bites: list[int], late: int) -> None:
    """P-09: samples that do not arrive in time are replaced by silence."""
    sound, out, fed, total = Sound(), b"", 0, sum(bites)
    samples = [index.to_bytes(SAMPLE_BYTES, "big") for index in range(1, 4001)]
    sound.starts_at = start
    for number, bite in enumerate(bites):
        if number >= late:
            ready = min(len(samples), max(0, sum(bites[: number + 1]) - start))
            sound.data += b"".join(samples[fed:ready])
            fed = max(fed, ready)
        out += sound.take(bite)
    assert len(out) == total * SAMPLE_BYTES
    for place in range(total):
        found = int.from_bytes(out[place * SAMPLE_BYTES : (place + 1) * SAMPLE_BYTES], "big")
        assert found in {0, place - start + 1}


def test_sound_and_picture_have_the_same_length_at_any_frame_rate() -> None:
    from fractions import Fraction

    for rate in (Fraction(25), Fraction(50), Fraction(30000, 1001), Fraction(24000, 1001), Fraction(60000, 1001)):
        picture = Format(1280, 720, rate)
        total = sum(picture.samples_of(frame) for frame in range(10_000))
        assert abs(total - 10_000 / float(rate) * 48_000) < 1
        assert len(bars(picture)) == len(plain(picture)) == picture.frame_bytes


SHOWN = "n:   0 pts:      0 pts_time:2.22222e-05 duration:   3600 fmt:yuv420p s:320x180 i:P iskey:1 type:I "
OLDER = "n:   0 pts: 126000 pts_time:1.4     pos:      564 fmt:yuv420p sar:1/1 s:320x180 i:P iskey:1 type:I "
HEARD = "n:0 pts:-1024 pts_time:-0.0213333 fmt:fltp channels:2 chlayout:stereo rate:48000 nb_samples:1024 "


@pytest.mark.parametrize(
    ("line", "picture", "sound"),
    [
        (f"[Parsed_showinfo_0 @ 0x5] {SHOWN}checksum:0", 2.22222e-05, None),
        (f"[Parsed_showinfo_0 @ 0x5] {OLDER}", 1.4, None),
        (f"[Parsed_ashowinfo_0 @ 0x5] {HEARD}checksum:1", None, -0.0213333),
        (f"[Parsed_showinfo_0 @ 0x5] {SHOWN}{HEARD}checksum:1", 2.22222e-05, -0.0213333),
        (f"[Parsed_ashowinfo_0 @ 0x5] {HEARD}{SHOWN}", 2.22222e-05, -0.0213333),
        (f"{HEARD}", None, -0.0213333),
        (f"[Parsed_showinfo_0 @ 0x5] color_range:tv color_trc:unknown{HEARD}", None, -0.0213333),
        (f"[Parsed_ashowinfo_0 @ 0x5] {HEARD.partition('stereo')[0]}{SHOWN}stereo rate:48000", 2.22222e-05, -0.0213333),
        (
            "[Parsed_showinfo_0 @ 0x5] n:  10 pts:  36000 pts_time:0.4 fmt:yuv420p s:320x180 i:P iskey:0 type:P ",
            None,
            None,
        ),
        (f"[Parsed_showinfo_0 @ 0x5] {OLDER.replace('n:   0', 'n:   3')}{HEARD}", None, -0.0213333),
    ],
)
def test_start_times_are_parsed_from_mixed_ffmpeg_lines(line: str, picture: float | None, sound: float | None) -> None:
    """P-09: ffmpeg prints from two threads, so lines mix. A clip whose start times are not found is skipped."""
    found = [pattern.search(line) for pattern in (FIRST_PICTURE, FIRST_SOUND)]
    assert [float(each.group(1)) if each else None for each in found] == [picture, sound]
