"""The as-run spool on disk: its size is limited, and the next media worker reads it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testing.waiting import wait_until
from worker.playout import asrun_spool
from worker.playout.asrun_spool import Spool
from worker.wire.asrun import AsRunRecord

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def begin(book: Spool, key: str) -> AsRunRecord:
    return book.begin(AsRunRecord(0, 0, key=key, kind="asset", title=key, started_at=MOMENT))


def test_the_spool_of_a_channel_that_runs_for_months_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-10: a line is added every ten seconds; the last line of every entry is kept."""
    monkeypatch.setattr(asrun_spool, "MOST_BYTES", 20_000)
    book = Spool(tmp_path, 3)
    for number in range(10):
        entry = begin(book, str(number))
        for frames in range(100):
            entry.frames = frames
            book.write(entry)
        entry.ended_at, entry.reason = MOMENT + timedelta(seconds=10), "played"
        book.write(entry)
    book.close(20)
    path = tmp_path / "asrun-g3.jsonl"
    assert path.stat().st_size < 40_000
    known = {line["key"]: line for line in map(json.loads, path.read_text().splitlines())}
    assert [known[str(number)]["reason"] for number in range(10)] == ["played"] * 10

    successor = Spool(tmp_path, 4)
    wait_until(lambda: len(successor.since(0).entries) == 10, 10, "the next media worker has read the spool")
    assert {entry.frames for entry in successor.since(0).entries} == {99}
    successor.close()


def test_a_title_with_a_line_separator_stays_one_entry(tmp_path: Path) -> None:
    """P-10: text that was pasted from a document may contain U+2028 or U+0085."""
    title = "Evening\u2028news \u0085"
    book = Spool(tmp_path, 3)
    begin(book, title)
    book.close(20)

    successor = Spool(tmp_path, 4)
    wait_until(lambda: successor.revision == 1, 10, "it knows what its predecessor wrote")
    assert [entry.title for entry in successor.since(0).entries] == [title]
    successor.close()
