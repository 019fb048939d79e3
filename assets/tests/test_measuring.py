"""Loudness, black, silence and freeze, measured on files with known content (A-05)."""

from pathlib import Path

import pytest

from assets.files.sandboxed_ffmpeg import Media, ignore_progress
from assets.processing import measuring
from testing.library import TONE, make, make_clip, make_tone, make_troubled


def test_a_tone_of_minus_23_dbfs_has_minus_23_lufs(tmp_path: Path) -> None:
    """EBU Tech 3341, case 1: 1 kHz at -23 dBFS on both channels, correct to 0.1 LU."""
    found = measuring.measure_loudness(Media((make_tone(tmp_path / "tone.wav", 20),)), ignore_progress)
    assert found.integrated_lufs == pytest.approx(-23.0, abs=0.1)
    assert found.true_peak_dbtp == pytest.approx(-23.0, abs=0.2)
    assert found.range_lu == pytest.approx(0.0, abs=0.1)


def test_a_quiet_passage_below_the_gate_does_not_lower_the_loudness(tmp_path: Path) -> None:
    """Similar to case 3: -36 for 10 s, -23 for 20 s; the quiet part is below the relative gate."""
    one = "if(lt(t,10),0.0158489,0.0707946)*sin(2*PI*1000*t)"
    steps = f"aevalsrc='{one}|{one}':s=48000:d=30"
    path = make(tmp_path / "steps.wav", "-f", "lavfi", "-i", steps, "-c:a", "pcm_s24le")
    found = measuring.measure_loudness(Media((path,)), ignore_progress)
    assert found.integrated_lufs == pytest.approx(-23.0, abs=0.15)


def test_silence_has_no_loudness(tmp_path: Path) -> None:
    path = make(tmp_path / "silence.wav", "-f", "lavfi", "-i", "anullsrc=r=48000:d=3", "-c:a", "pcm_s24le")
    found = measuring.measure_loudness(Media((path,)), ignore_progress)
    assert found.integrated_lufs is None


def test_the_loudness_of_several_parts_is_measured_as_one(tmp_path: Path) -> None:
    parts = tuple(make_clip(tmp_path / f"{number}.ts", 5) for number in (1, 2))
    found = measuring.measure_loudness(Media(parts), ignore_progress)
    assert found.integrated_lufs == pytest.approx(-23.0, abs=0.3)  # AAC is not exact
    assert "0.0707946" in TONE


@pytest.mark.parametrize("name", ["troubled.mp4", "troubled.ts"])
def test_black_silence_and_freeze_are_found_at_the_right_times(tmp_path: Path, name: str) -> None:
    media = Media((make_troubled(tmp_path / name),))
    found = measuring.find_stretches(
        media, has_picture=True, has_sound=True, duration=12.0, on_progress=ignore_progress
    )
    by_kind = {kind: [each for each in found if each.kind == kind] for kind in ("black", "silence", "freeze")}
    assert len(by_kind["black"]) == 1
    assert by_kind["black"][0].from_seconds == pytest.approx(3.0, abs=0.15)
    assert by_kind["black"][0].to_seconds == pytest.approx(5.0, abs=0.15)
    assert len(by_kind["silence"]) == 1
    assert by_kind["silence"][0].from_seconds == pytest.approx(6.0, abs=0.15)
    assert by_kind["silence"][0].to_seconds == pytest.approx(8.0, abs=0.15)
    standing = by_kind["freeze"]
    assert len(standing) == 1, "a black stretch is not reported as freeze, too"
    assert standing[0].from_seconds == pytest.approx(8.0, abs=0.15)
    assert standing[0].to_seconds == pytest.approx(11.0, abs=0.15)


def test_a_finding_that_is_open_at_the_end_of_the_file_ends_there() -> None:
    said = ["[silencedetect @ 0x1] silence_start: 4.5", "[freezedetect @ 0x2] lavfi.freezedetect.freeze_start: 7"]
    found = measuring.parse_findings(said, 10.0)
    assert [(each.kind, each.from_seconds, each.to_seconds) for each in found] == [
        ("silence", 4.5, 10.0),
        ("freeze", 7.0, 10.0),
    ]


def test_silence_that_starts_before_zero_counts_from_zero() -> None:
    found = measuring.parse_findings(["silence_start: -0.02", "silence_end: 2.0 | silence_duration: 2.02"], 10.0)
    assert (found[0].from_seconds, found[0].to_seconds) == (0.0, 2.0)
