"""The status of the playout main loop."""

import pytest

from worker.playout.main_loop import Stage


def test_repeated_frame_drops_are_reported_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-03: an encoder that cannot keep up is not healthy."""
    now = 1000.0
    monkeypatch.setattr("worker.playout.main_loop.time.monotonic", lambda: now)
    stage = object.__new__(Stage)
    stage.dropped, stage._dropped_at, stage._dropping_since = 0, -1e9, -1e9
    assert stage._dropping_seconds() == 0
    for _ in range(10):
        stage._note_drop()
        now += 3
    assert (stage.dropped, stage._dropping_seconds()) == (10, 27.0)
    now += 20
    assert stage._dropping_seconds() == 0
