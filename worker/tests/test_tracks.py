"""All tracks of a source are recorded where the file can hold them; otherwise the test of the source says so."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from testing.capturing import capture
from testing.dvb_tracks import with_dvb_tracks
from testing.media import ffmpeg, free_port, snapshot
from testing.transport_streams import Piece, describe, length_of, make_stream, sending
from worker.capture import probe
from worker.capture.tracks import Track, read_tracks, unrecorded
from worker.media.ffmpeg import Binary
from worker.media.ffmpeg_versions import keeps_sparse_tracks
from worker.wire.configuration import ProbeConfig, Source

pytestmark = pytest.mark.paced
TWO_PROGRAMMES = ("-map", "0:v", "-map", "1:a", "-map", "0:v", "-map", "1:a")
TWO_PROGRAMMES += ("-program", "program_num=7:st=0:st=1", "-program", "program_num=8:st=2:st=3")


@pytest.fixture
def port() -> int:
    return free_port(socket.SOCK_DGRAM) // 2 * 2


@pytest.mark.parametrize("kind", ["udp", "rtp"])
def test_teletext_subtitles_and_cues_are_recorded(tmp_path: Path, port: int, kind: str, either_ffmpeg: Binary) -> None:
    """R-16: a transport stream keeps all its tracks with Debian's ffmpeg, which writes SCTE-35 as private data."""
    stream = with_dvb_tracks(make_stream(tmp_path, 4))
    source = {"type": kind, "url": f"{kind}://127.0.0.1:{port}"}
    with capture(tmp_path / "media", source, environment={"AIRLOCK_FFMPEG": either_ffmpeg.path}) as worker:
        worker.wait_for(state="connecting")
        with sending(port, Piece(stream, 4), rtp=kind == "rtp") as sent:
            assert sent.is_over.wait(30)
        worker.stop()
    tracks = read_tracks(describe(worker.files()[0]).splitlines())
    if not keeps_sparse_tracks(either_ffmpeg):
        assert [track.kind for track in tracks] == ["Video", "Audio"]
        return
    assert [track.kind for track in tracks] == ["Video", "Audio", "Subtitle", "Subtitle", "Data"]
    assert [str(track) for track in tracks[2:4]] == ["teletext (deu)", "DVB subtitles (deu)"]


def test_a_silent_track_does_not_hold_back_the_others(tmp_path: Path, port: int, either_ffmpeg: Binary) -> None:
    """R-15, R-16: subtitles may be silent for hours; the growing file is never more than a moment behind, and the
    recording does not count as stalled."""
    stream = with_dvb_tracks(make_stream(tmp_path, 20), is_silent=True)
    source = {"type": "udp", "url": f"udp://127.0.0.1:{port}"}
    with capture(tmp_path / "media", source, environment={"AIRLOCK_FFMPEG": either_ffmpeg.path}) as worker:
        worker.wait_for(state="connecting")
        with sending(port, Piece(stream, 20)) as sent:
            assert sent.is_over.wait(60)
            assert length_of(snapshot(worker.files()[0])) > 17
        final = worker.stop()
    assert (final["restarts"], final["gaps"]) == (0, [])
    assert final["seconds"] > 17


def test_one_programme_of_several_is_recorded(tmp_path: Path, port: int) -> None:
    """R-14: the recorder names the programme."""
    stream = make_stream(tmp_path, 4, more=TWO_PROGRAMMES)
    source = {"type": "udp", "url": f"udp://127.0.0.1:{port}"}
    with capture(tmp_path / "media", source, programme=8) as worker:
        worker.wait_for(state="connecting")
        with sending(port, Piece(stream, 4)) as sent:
            assert sent.is_over.wait(30)
        worker.stop()
    assert [track.kind for track in read_tracks(describe(worker.files()[0]).splitlines())] == ["Video", "Audio"]


@pytest.mark.parametrize("container", ["mpegts", "fmp4"])
def test_the_test_of_a_source_says_what_the_file_cannot_hold(
    tmp_path: Path, port: int, container: str, monkeypatch: pytest.MonkeyPatch, either_ffmpeg: Binary
) -> None:
    """R-20: it uses the muxer of the recording."""
    monkeypatch.setenv("AIRLOCK_FFMPEG", either_ffmpeg.path)
    stream = with_dvb_tracks(make_stream(tmp_path, 6))
    source = Source("udp", f"udp://127.0.0.1:{port}")
    with sending(port, Piece(stream, 6), Piece(stream, 6)):
        answer = probe.answer_of(ProbeConfig(source, container=container))
    assert answer.ok, answer
    lost = ("teletext (deu)", "DVB subtitles (deu)", "SCTE-35")
    is_kept = container == "mpegts" and keeps_sparse_tracks(either_ffmpeg)
    assert answer.unrecorded == (() if is_kept else lost)
    assert answer.programmes == (1,)


def test_the_test_of_a_source_finds_that_the_programme_is_missing(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-20."""
    monkeypatch.setenv("AIRLOCK_FFMPEG_FALLBACK", ffmpeg())
    stream = make_stream(tmp_path, 6, more=TWO_PROGRAMMES)
    source = Source("udp", f"udp://127.0.0.1:{port}")
    with sending(port, Piece(stream, 6), Piece(stream, 6)):
        answer = probe.answer_of(ProbeConfig(source, programme=9))
    assert answer.error == "the source has no programme 9, but 7, 8"


def test_only_tracks_of_the_chosen_programme_count() -> None:
    tracks = [Track("Video", "h264", "", 1), Track("Data", "scte_35", "", 1), Track("Data", "klv", "", 2)]
    binary = Binary(ffmpeg(), is_static=True)
    config = ProbeConfig(Source("udp"), container="fmp4", programme=1)
    assert unrecorded(tracks, config, binary) == ["SCTE-35"]
    assert unrecorded(tracks, replace(config, programme=0), binary) == ["SCTE-35", "KLV"]
