"""The status of the playout main loop."""

import pytest

from worker.playout.main_loop import MainLoop


def test_repeated_frame_drops_are_reported_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-03: an encoder that cannot keep up is not healthy."""
    now = 1000.0
    monkeypatch.setattr("worker.playout.main_loop.time.monotonic", lambda: now)
    main_loop = object.__new__(MainLoop)
    main_loop.dropped, main_loop._dropped_at, main_loop._dropping_since = 0, -1e9, -1e9
    assert main_loop._dropping_seconds() == 0
    for _ in range(10):
        main_loop._note_drop()
        now += 3
    assert (main_loop.dropped, main_loop._dropping_seconds()) == (10, 27.0)
    now += 20
    assert main_loop._dropping_seconds() == 0
