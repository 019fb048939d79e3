"""Durations and timecodes as people type them and other systems write them (P-12, S-07)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from station.clock.lengths import SecondsField, seconds_of

PAL, NTSC, FAST = Fraction(25), Fraction(30000, 1001), Fraction(60000, 1001)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("12.5", 12.5),
        ("12,5", 12.5),
        ("1:30", 90),
        ("90:00", 5400),
        ("0:01:30.5", 90.5),
        (5, 5),
        ("", None),
    ],
)
def test_seconds_and_times_with_colons_are_read(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(text, PAL) == seconds


@pytest.mark.parametrize(
    ("text", "rate", "frames"),
    [
        ("00:00:02:12", PAL, 62),
        ("00:00:02:12", Fraction(50), 112),
        ("10:00:00:24", PAL, 900_024),
        ("00:01:00:00", NTSC, 1800),
        ("00:00:59;29", NTSC, 1799),
        ("00:01:00;02", NTSC, 1800),
        ("00:10:00;00", NTSC, 17982),
        ("01:00:00;00", NTSC, 107892),
        ("01;00;00;00", NTSC, 107892),
        ("00:01:00;04", FAST, 3600),
        ("01:00:00;00", FAST, 215784),
    ],
)
def test_a_timecode_counts_frames_of_the_channel(text: str, rate: Fraction, frames: int) -> None:
    """The last two digits are frames, not hundredths and not seconds; after a semicolon by drop-frame (SMPTE 12M)."""
    seconds = seconds_of(text, rate)
    assert seconds is not None
    assert round(seconds * rate) == frames
    assert seconds == pytest.approx(float(frames / rate), abs=1e-9)


def drop_frame(frame: int, per_second: int) -> str:
    """The label of a frame by counting: at every full minute except each tenth, the first labels are left out."""
    left_out = per_second // 15
    ten, rest = divmod(frame, 600 * per_second - 9 * left_out)
    minute = 0
    while rest >= (length := 60 * per_second - (left_out if minute else 0)):
        rest -= length
        minute += 1
    label = rest + (left_out if minute else 0)
    minutes = ten * 10 + minute
    return f"{minutes // 60:02}:{minutes % 60:02}:{label // per_second:02};{label % per_second:02}"


@given(st.integers(0, 24 * 107892 - 1), st.sampled_from([(NTSC, 30), (FAST, 60)]))
def test_every_frame_of_a_day_is_read_back_from_its_drop_frame_label(frame: int, kind: tuple[Fraction, int]) -> None:
    rate, per_second = kind
    seconds = seconds_of(drop_frame(frame, per_second), rate)
    assert seconds is not None
    assert round(seconds * rate) == frame


@pytest.mark.parametrize(
    ("text", "rate", "words"),
    [
        ("00:00:02:12", None, "frame rate is not known"),
        ("00:00:02;12", None, "frame rate is not known"),
        ("00:00:02:25", PAL, "0 to 24"),
        ("00:00:02;12", PAL, "29.97"),
        ("00:01:00;01", NTSC, "does not exist"),
        ("00:60:00:00", PAL, "under 60"),
        ("1:2:3:4:5", PAL, "is not a time"),
        ("0:01:75", None, "under 60"),
        ("1.5:30", None, "is not a time"),
        ("-5", None, "is not a time"),
        ("nan", None, "is not a time"),
        ("0:02:12:", PAL, "is not a time"),
        ("1;30", PAL, "is not a time"),
        ("٣:30", None, "is not a time"),
        ([1], PAL, "is not a time"),
        (True, PAL, "is not a time"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_message(text: object, rate: Fraction | None, words: str) -> None:
    """S-07."""
    with pytest.raises(ValueError, match=words):
        seconds_of(text, rate)


def test_the_form_field_knows_the_rate() -> None:
    field = SecondsField(required=False)
    field.rate = PAL
    assert field.clean("00:00:02:12") == 2.48
    assert field.clean("12,5") == 12.5
    assert field.clean("") is None
