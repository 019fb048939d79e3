"""A recording that is still being written is joined in the middle: the first frame is the requested one."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from testing.counted import BITS, BOX, RATE, numbers_in, pattern
from testing.media import ffmpeg
from testing.playing import make_clip, playout
from testing.waiting import wait_until
from worker.media.ffmpeg import Binary
from worker.playout.inputs import growing_file
from worker.playout.inputs.decoder import Decoder
from worker.playout.inputs.growing_file import PACKET, ROUND_SECONDS, TICKS, find_entry
from worker.playout.inputs.item_inputs import follow_feed
from worker.wire import codec
from worker.wire.parts_and_gaps import Part, RecordingJournal
from worker.wire.picture import SAMPLE_RATE, Format

pytestmark = pytest.mark.paced

SECONDS = 60
PICTURE = Format(320, 180, Fraction(RATE))
# As the recorder writes them, with key frames four seconds apart and B-frames.
ORDER = ("-g", "100", "-bf", "3", "-sc_threshold", "0")
WRITTEN = {
    "one-001.ts": ("-f", "mpegts"),
    "one-001.mp4": ("-f", "mp4", "-movflags", "frag_keyframe+empty_moov+default_base_moof"),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A factory of recordings of this kind whose journal does not say that they have ended."""
    made: dict[tuple[str, ...], Path] = {}

    def make(name: str, *more: str) -> Path:
        if (name, *more) not in made:
            folder = tmp_path_factory.mktemp("media") / "take"
            folder.mkdir()
            made[name, *more] = folder / name
            make_clip(folder / name, pattern(), SECONDS, *ORDER, *WRITTEN[name], *more)
            (folder / "one.json").write_text(codec.dumps(RecordingJournal((Part(1, name, bytes=1),))))
        return made[name, *more]

    return make


def first_shown(path: Path, seconds: float, length: float = SECONDS) -> tuple[int, bool]:
    """(number of the first decoded frame, whether it has sound)"""
    feed, offset = follow_feed(path, lambda: True, seconds, length)
    decoder = Decoder(Binary(ffmpeg(), is_static=True), PICTURE, feed, offset_seconds=offset)
    try:
        wait_until(lambda: decoder.is_ready or decoder.has_failed, 20, "the decoder is ready")
        taken = decoder.take(SAMPLE_RATE // RATE)
        assert taken.frame is not None, decoder.words()
        row = taken.frame[PICTURE.width * BOX // 2 :]
        number = sum(1 << bit for bit in range(BITS) if row[bit * BOX + BOX // 2] > 128)
        return number, any(taken.sound)
    finally:
        decoder.end()


@pytest.mark.parametrize("seconds", [0.0, 0.6, 3.96, 4.04, 39.2, 58.0])
@pytest.mark.parametrize("name", WRITTEN)
def test_playback_begins_with_exactly_the_requested_frame(
    recorded: Callable[..., Path], name: str, seconds: float
) -> None:
    """P-07: within one frame."""
    number, has_sound = first_shown(recorded(name), seconds)
    assert number == pytest.approx(seconds * RATE, abs=1)
    assert has_sound


@pytest.mark.parametrize("name", WRITTEN)
def test_a_position_that_is_not_recorded_yet_begins_at_the_newest_key_frame(
    recorded: Callable[..., Path], name: str
) -> None:
    """P-07: the source was lost for a while, so the list is ahead of the recording. The item is not skipped."""
    number, _ = first_shown(recorded(name), 500.0)
    assert number == 1400


@pytest.mark.parametrize("seconds", [10.0, 20.5, 29.0, 31.0, 45.0])
@pytest.mark.parametrize("before", [30, 80])
def test_a_recording_is_joined_correctly_when_its_time_stamps_wrap_around(
    recorded: Callable[..., Path], seconds: float, before: float
) -> None:
    """R-16, P-07: time stamps of a transport stream wrap around after about 26.5 hours."""
    path = recorded("one-001.ts", "-output_ts_offset", f"{ROUND_SECONDS - before:.3f}")
    number, _ = first_shown(path, seconds)
    assert number == pytest.approx(seconds * RATE, abs=1)


def stamped(seconds: float) -> bytes:
    """A packet with the start of a key frame at this time."""
    ticks = round(seconds * TICKS) % (1 << 33)
    stamp = bytes(
        [
            0x21 | (ticks >> 29) & 0x0E,
            (ticks >> 22) & 0xFF,
            0x01 | (ticks >> 14) & 0xFE,
            (ticks >> 7) & 0xFF,
            0x01 | (ticks << 1) & 0xFE,
        ]
    )
    return (b"\x47\x41\x00\x30\x01\x40\0\0\1\xe0\0\0\x80\x80\x05" + stamp).ljust(PACKET, b"\xff")


@pytest.mark.parametrize("hours", [1.0, 12.0, 15.0, 26.0, 27.0, 39.5])
def test_a_recording_of_two_days_is_joined_at_the_right_one_of_two_equal_time_stamps(
    tmp_path: Path, hours: float
) -> None:
    """P-07: after the wrap-around, time stamps repeat."""
    path = tmp_path / "x.ts"
    with path.open("wb") as file:
        file.write(b"\x47\x40\x00\x10".ljust(PACKET, b"\xff"))
        for number in range(40 * 360):  # a key frame every ten seconds, and a hole between them
            file.write(stamped(1.4 + 10 * number))
            file.seek(PACKET * 40, 1)
    entry = find_entry(path, hours * 3600 + 3, 40 * 3600)
    assert entry is not None
    assert entry.start == PACKET * (1 + 41 * round(hours * 360))
    assert entry.at == pytest.approx((1.4 + hours * 3600) % ROUND_SECONDS + 3)


def test_the_search_for_a_position_stops_at_its_time_limit(
    recorded: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-09: with slow storage the file is played from an earlier position, because the search blocks other items."""
    monkeypatch.setattr(growing_file, "LOOK_SECONDS", -1.0)
    entry = find_entry(recorded("one-001.ts"), 39.2)
    assert entry is not None
    assert entry.start == len(entry.head)


@pytest.mark.parametrize("name", WRITTEN)
def test_no_entry_point_is_found_in_invalid_files(tmp_path: Path, name: str) -> None:
    for content in (b"", b"not media" * 5000, b"\x47" * PACKET * 9, b"\0\0\0\x10moofxxxxmfhd" * 99):
        path = tmp_path / name
        path.write_bytes(content)
        assert find_entry(path, 10.0) is None


@pytest.mark.parametrize("name", WRITTEN)
def test_an_entry_point_is_found_in_a_file_that_ends_in_the_middle_of_a_packet(
    recorded: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    """R-21: the file is being written."""
    content = recorded(name).read_bytes()
    path = tmp_path / name
    whole = find_entry(recorded(name), 30.0)
    assert whole is not None
    for size in (len(content) - 1, len(content) - 1000, whole.start + 1, whole.start + 90, whole.start + 700):
        path.write_bytes(content[:size])
        entry = find_entry(path, 30.0)
        assert entry is not None
        assert entry.start <= whole.start
        assert entry.at <= whole.at + 0.001


@pytest.mark.parametrize("name", WRITTEN)
def test_a_growing_recording_is_joined_on_air(recorded: Callable[..., Path], name: str) -> None:
    """P-07, P-09: with a whole media worker."""
    media = recorded(name).parent.parent
    item = {"key": "g", "kind": "growing", "title": "From the court", "journal": "take/one.json", "in_seconds": 39.2}
    with playout(media, [item]) as worker:
        status = worker.wait_for(state="playing")
        worker.wait_for(frames=status["frames"] + 100)
        worker.stop()
    numbers = numbers_in(media / "out.ts")
    begin = next(place for place, number in enumerate(numbers) if 970 < number < 1000)  # after the bars
    assert numbers[begin] == pytest.approx(39.2 * RATE, abs=1)
    assert {after - before for before, after in pairwise(numbers[begin : begin + 25])} <= {0, 1}
