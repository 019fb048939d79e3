"""Fixtures of the media workers' tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.directing import SimulatedChannel
from testing.media import debian_ffmpeg, ffmpeg
from worker.media.ffmpeg import Binary
from worker.playout.loaded_config import Item


@pytest.fixture
def simulate(tmp_path: Path) -> Iterator[Any]:
    made: list[SimulatedChannel] = []

    def make(*items: Item, **more: Any) -> SimulatedChannel:
        made.append(SimulatedChannel(tmp_path, *items, **more))
        return made[-1]

    yield make
    for each in made:
        each.spool.close()


@pytest.fixture(params=["bundled", "debian"])
def either_ffmpeg(request: pytest.FixtureRequest, tmp_path: Path) -> Binary:
    """The static ffmpeg 7.0 of the wheel, and Debian's 5.1 of the media worker image."""
    if request.param == "bundled":
        return Binary(ffmpeg(), is_static=True)
    found = debian_ffmpeg(tmp_path)
    if found is None:
        pytest.skip("the media worker image was not made on this machine")
    return Binary(found, is_static=False)
