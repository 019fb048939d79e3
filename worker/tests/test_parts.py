"""Parts of the media worker without ffmpeg: the journal, source addresses, paths and redaction."""

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from worker.capture.journal import Journal
from worker.capture.splitting import escape_tee
from worker.media.sources import build_input, nth_decklink, quoted, with_numeric_host
from worker.process.config_line import ConfigError, inside
from worker.process.redaction import redact
from worker.wire import codec
from worker.wire.configuration import Source

NOW = datetime(2026, 1, 16, 20, 0, tzinfo=UTC)


def record(journal: Journal, start: datetime, seconds: float, reason: str) -> None:
    part = journal.begin(1, start)
    (journal.folder / part.file).write_bytes(b"x" * 188)
    journal.note_first_frame(part, start)
    journal.measure(part, int(seconds * 25), seconds)
    journal.finish(part, reason)


def test_the_time_between_two_parts_is_a_gap(tmp_path: Path) -> None:
    """R-15."""
    journal = Journal.open(tmp_path, "take", "mpegts")
    record(journal, NOW, 10, "ffmpeg_died")
    record(journal, NOW + timedelta(seconds=12), 5, "source_lost")
    record(journal, NOW + timedelta(seconds=17.1), 5, "stopped")

    assert [(gap.seconds, gap.reason) for gap in journal.gaps] == [(2.0, "ffmpeg_died")], (
        "0.1 s does not count as a gap"
    )
    assert [part.file for part in journal.parts] == ["take-001.ts", "take-002.ts", "take-003.ts"]


def test_an_empty_part_is_dropped(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, "take", "mpegts")
    part = journal.begin(1, NOW)

    assert journal.finish(part, "source_lost") is False

    assert journal.parts == []
    assert list(tmp_path.glob("*.ts")) == []


def test_the_number_of_an_existing_file_is_never_reused(tmp_path: Path) -> None:
    (tmp_path / "take-001.ts").write_bytes(b"precious")
    journal = Journal.open(tmp_path, "take", "mpegts")

    assert journal.begin(1, NOW).number == 2
    assert journal.begin(7, NOW).number == 7
    assert (tmp_path / "take-001.ts").read_bytes() == b"precious"


def test_a_part_left_open_by_a_killed_media_worker_is_closed_by_the_next_one(tmp_path: Path) -> None:
    first = Journal.open(tmp_path, "take", "mpegts")
    part = first.begin(1, NOW)
    first.note_first_frame(part, NOW)
    path = tmp_path / part.file
    path.write_bytes(b"x" * 188)
    os.utime(path, ((NOW + timedelta(seconds=8)).timestamp(),) * 2)

    second = Journal.open(tmp_path, "take", "mpegts")

    [known] = second.parts
    assert (known.end_reason, known.bytes) == ("worker_died", 188)
    # The clock and the time stamp of a new file are read one after the other, and the latter in kernel ticks.
    assert known.seconds == pytest.approx(8, abs=0.5)


def test_a_corrupt_journal_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "take.json").write_text("{half")
    assert Journal.open(tmp_path, "take", "mpegts").parts == []
    assert (tmp_path / "take.json.bad").exists()


def test_the_journal_file_has_the_same_contents_as_the_status(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, "take", "mpegts")
    record(journal, NOW, 10, "stopped")
    assert json.loads((tmp_path / "take.json").read_text()) == codec.message(journal.contents())


@pytest.mark.parametrize("url", ["srt://h:1?passphrase=it's", "srt://h:1?a=b\nfile /etc/passwd", "srt://h:1?x='\\''"])
def test_an_address_cannot_inject_lines_into_the_input_list(url: str) -> None:
    """S-03."""
    feed = build_input(Source("srt", url), can_look_up_names=True)
    assert feed.stdin.decode().count("\n") == 2
    assert url.split("?")[0] not in " ".join(feed.arguments)


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("srt", "file:///etc/passwd"),
        ("hls", "concat:a"),
        ("udp", "srt://h:1"),
        ("lavfi", "movie=x"),
        ("rtmp", "/etc/x"),
    ],
)
def test_an_address_with_the_wrong_scheme_for_its_type_is_refused(kind: str, url: str) -> None:
    """S-03: the media worker checks what the scheduler sends, too."""
    with pytest.raises(ConfigError):
        build_input(Source(kind, url), can_look_up_names=True)


def test_no_protocol_list_contains_file_or_concat() -> None:
    """S-03."""
    for kind in ("srt", "rtmp", "rtp", "udp", "rtsp", "hls"):
        scheme = {"hls": "https"}.get(kind, kind)
        arguments = build_input(Source(kind, f"{scheme}://127.0.0.1:1/x"), can_look_up_names=True).arguments
        protocols = arguments[arguments.index("-protocol_whitelist") + 1].split(",")
        assert not {"file", "concat", "subfile", "data", "async", "cache"} & set(protocols)


def test_a_decklink_source_puts_its_device_and_options_in_the_arguments() -> None:
    listing = "Auto-detected sources for decklink:\n  81:76669a80 [DeckLink Duo (1)]\n  82:76669a80 [DeckLink Mini]\n"
    source = Source("decklink", "1", {"format_code": "Hi50"})
    feed = build_input(source, can_look_up_names=True, device_name=lambda index: nth_decklink(listing, index))
    assert feed.arguments == ["-f", "decklink", "-format_code", "Hi50", "-i", "DeckLink Mini"]
    with pytest.raises(ConfigError, match="no DeckLink device 2; ffmpeg finds 2"):
        nth_decklink(listing, "2")


def test_host_names_become_ip_addresses_for_the_static_ffmpeg() -> None:
    assert with_numeric_host("srt://localhost:9000?mode=caller") in {
        "srt://127.0.0.1:9000?mode=caller",
        "srt://[::1]:9000?mode=caller",
    }
    assert with_numeric_host("rtsp://u:p@localhost/s").startswith("rtsp://u:p@")
    with pytest.raises(ConfigError, match="cannot check certificates"):
        with_numeric_host("https://localhost/x.m3u8")
    with pytest.raises(ConfigError, match="has no address"):
        with_numeric_host("srt://no-such-host.invalid:1")


def test_paths_that_leave_the_media_folder_are_refused(tmp_path: Path) -> None:
    """S-04."""
    assert inside(tmp_path, "a/b") == tmp_path.resolve() / "a" / "b"
    (tmp_path / "link").symlink_to("/etc")
    for path in ("../x", "/etc", "a/../../x", "link/x"):
        with pytest.raises(ConfigError):
            inside(tmp_path, path)


def test_special_characters_in_tee_paths_are_escaped() -> None:
    assert escape_tee("/media/a|b[c]:d'e\\f") == "/media/a\\|b\\[c\\]\\:d\\'e\\\\f"


def test_secrets_are_removed_from_ffmpeg_messages() -> None:
    """S-05."""
    line = "srt://h:1?passphrase=XYZZY: Input/output error; rtmp://h/app/XYZZY; token XYZZY"
    assert "XYZZY" not in redact(line, "XYZZY")
    assert "XYZZY" not in redact("rtsp://u:XYZZY@h/")


def test_a_quote_inside_quoted_text_is_escaped() -> None:
    assert quoted("it's") == "'it'\\''s'"


def test_measuring_from_several_threads_keeps_the_last_size(tmp_path: Path) -> None:
    """/status and the main loop may measure at the same time; the file's last size is kept."""
    journal = Journal.open(tmp_path, "take", "mpegts")
    part = journal.begin(1, NOW)
    path = tmp_path / part.file
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            journal.measure(part, part.frames, part.seconds)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for size in range(1, 400):
        path.write_bytes(b"x" * size)
        journal.measure(part, size, size)
    stop.set()
    for asker in askers:
        asker.join()

    assert part.bytes == 399
