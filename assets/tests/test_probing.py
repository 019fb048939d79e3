"""Parsing ffmpeg's log; refusing files that are not media with a readable reason."""

from pathlib import Path
from typing import Any

import pytest

from assets.files import probing, sandboxed_ffmpeg
from assets.files.sandboxed_ffmpeg import Media, NotDecoded, NotNow
from testing.library import make, make_clip, make_tone

# ruff: noqa: E501  (ffmpeg's own output)
SAID_BY_5_1 = """Input #0, mpegts, from 'file:/media/a.ts':
  Duration: 01:02:03.45, start: 1.400000, bitrate: 4170 kb/s
  Program 1
    Metadata:
      service_name    : Service01
  Stream #0:0[0x100]: Video: h264 (High) ([27][0][0][0] / 0x001B), yuv420p(tv, bt709, top first), 1920x1080 [SAR 1:1 DAR 16:9], 25 fps, 50 tbr, 90k tbn
  Stream #0:1[0x101]: Audio: mp2 ([3][0][0][0] / 0x0003), 48000 Hz, stereo, fltp, 192 kb/s
Stream mapping:
  Stream #0:0 -> #0:0 (h264 (native) -> wrapped_avframe (native))
Output #0, null, to 'pipe:':
  Stream #0:0: Video: wrapped_avframe, yuv420p, 640x360, q=2-31, 200 kb/s, 25 fps, 25 tbn""".splitlines()
SAID_BY_7_0 = """Input #0, mov,mp4,m4a,3gp,3g2,mj2, from 'file:/media/b.mov':
  Metadata:
    timecode        : 10:00:00:00
  Duration: 00:00:10.01, start: 0.000000, bitrate: 300 kb/s
  Stream #0:0[0x1](und): Video: prores (HQ) (apch / 0x68637061), yuv422p10le(progressive), 1280x720, 170000 kb/s, SAR 1:1 DAR 16:9, 29.97 fps, 29.97 tbr, 30k tbn (default)
  Stream #0:1[0x2](und): Audio: pcm_s24le (in24 / 0x34326E69), 48000 Hz, 4 channels, s32 (24 bit), 4608 kb/s (default)
  Stream #0:2[0x3](eng): Data: none (tmcd / 0x64636D74) (default)
    Metadata:
      timecode        : 10:00:00:00""".splitlines()


def test_output_of_ffmpeg_5_1_for_a_transport_stream_is_parsed() -> None:
    found = probing.parse(SAID_BY_5_1)
    assert found.container == "mpegts"
    assert found.duration_seconds == 3723.45
    assert [str(picture) for picture in found.pictures] == ["1920x1080i25"]
    assert [str(sound) for sound in found.sounds] == ["mp2 48 kHz stereo"]


def test_output_of_ffmpeg_7_0_for_a_quicktime_file_is_parsed_with_its_timecode() -> None:
    found = probing.parse(SAID_BY_7_0)
    assert (found.container, found.timecode) == ("mov", "10:00:00:00")
    assert str(found.pictures[0]) == "1280x720p29.97"
    assert found.sounds[0].channels == 4


@pytest.mark.parametrize("name", ["a.mp4", "a.ts", "a.mkv", "a.mov"])
def test_real_files_are_probed(tmp_path: Path, name: str) -> None:
    """A-05: duration, streams, frame rate."""
    found = probing.probe(make_clip(tmp_path / name, 2, size="640x360", rate=50))
    assert found.duration_seconds == pytest.approx(2, abs=0.1)
    assert str(found.pictures[0]) == "640x360p50"
    assert found.sounds[0].sample_rate == 48000


def test_the_timecode_of_a_file_is_found(tmp_path: Path) -> None:
    found = probing.probe(make_clip(tmp_path / "a.mov", 1, extra=("-timecode", "09:59:50:00")))
    assert found.timecode == "09:59:50:00"


def test_a_file_without_a_picture_is_media(tmp_path: Path) -> None:
    found = probing.probe(make_tone(tmp_path / "a.wav", 1))
    assert not found.pictures
    assert found.sounds[0].channels == 2


def test_raw_streams_without_a_length_are_measured(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h264", "-f", "lavfi", "-i", "testsrc2=size=64x64:rate=25:duration=2", "-c:v", "libx264")
    assert probing.probe(path).duration_seconds == pytest.approx(2, abs=0.2)


def bad_files(folder: Path) -> dict[str, Path]:
    clip = make_clip(folder / "whole.mp4", 2).read_bytes()
    contents = {
        "notes.txt": b"Dear colleagues,\n" * 50,
        "empty.mp4": b"",
        "noise.mp4": bytes(range(256)) * 400,
        "cut.mp4": clip[: len(clip) // 2],
        "page.html": b"<html><script>alert(1)</script></html>",
        "picture.jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\x00" * 200,
    }
    return {name: _write(folder / name, content) for name, content in contents.items()}


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_file_that_is_not_media_is_refused_with_the_reason(tmp_path: Path) -> None:
    """A-06: a clear error, without paths and without ffmpeg's own phrases."""
    for name, path in bad_files(tmp_path).items():
        with pytest.raises(NotDecoded) as fault:
            probing.probe(path)
        assert name in str(fault.value)
        assert str(tmp_path) not in str(fault.value), str(fault.value)
    assert "not in a known video or audio format" in _why(tmp_path / "notes.txt")
    assert "it is incomplete" in _why(tmp_path / "cut.mp4")


def _why(path: Path) -> str:
    with pytest.raises(NotDecoded) as fault:
        probing.probe(path)
    return str(fault.value)


@pytest.mark.parametrize("name", ["list.m3u8", "list.ts", "list.ffconcat", "list.mp4", "list.xml"])
def test_a_file_that_lists_other_files_is_refused(tmp_path: Path, name: str) -> None:
    """A-05: playlists and scripts, whatever their names, do not make ffmpeg read another file or address."""
    secret = make_clip(tmp_path / "elsewhere" / "secret.ts", 2)
    playlist = (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:2,\n{secret}\n#EXTINF:2,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n"
    )
    scripts = {
        "list.m3u8": playlist,
        "list.ts": playlist,
        "list.mp4": f"ffconcat version 1.0\nfile '{secret}'\n",
        "list.ffconcat": f"ffconcat version 1.0\nfile '{secret}'\n",
        "list.xml": f'<?xml version="1.0"?><MPD><BaseURL>{secret}</BaseURL></MPD>',
    }
    path = _write(tmp_path / name, scripts[name].encode())
    with pytest.raises(NotDecoded):
        probing.probe(path)


def test_several_parts_are_read_as_one_file(tmp_path: Path) -> None:
    """Also with quotes and spaces in their names."""
    parts = [make_clip(tmp_path / f"it's part {number}.ts", 1) for number in (1, 2, 3)]
    seconds = [0.0]
    sandboxed_ffmpeg.run_ffmpeg(Media(tuple(parts)), ["-f", "null", "-"], on_progress=seconds.append)
    assert max(seconds) == pytest.approx(3, abs=0.2)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(sandboxed_ffmpeg.NotNow, match=r"gone\.ts was not found"):
        sandboxed_ffmpeg.run_ffmpeg(Media((tmp_path / "gone.ts",)), ["-f", "null", "-"])


def test_without_a_sandbox_nothing_is_decoded(tmp_path: Path, monkeypatch: Any) -> None:
    """A machine that cannot sandbox ffmpeg does not run it; the file is not at fault, and another machine may try."""
    from worker.media import sandbox

    def cannot(**kwargs: Any) -> None:
        raise sandbox.CannotConfine("no filter is known for sparc")

    monkeypatch.setattr(sandboxed_ffmpeg, "Sandbox", cannot)
    with pytest.raises(NotNow, match="cannot block ffmpeg's access to the network"):
        probing.probe(make_clip(tmp_path / "a.mp4", 1))


@pytest.mark.parametrize("name", ["a.ts", "a.mp4"])
def test_frames_are_counted_without_decoding(tmp_path: Path, name: str) -> None:
    assert probing.count_pictures(make_clip(tmp_path / name, 3)) == (75, pytest.approx(3.0, abs=0.05))
