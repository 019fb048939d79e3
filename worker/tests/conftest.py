"""Fixtures of the media workers' tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.directing import SimulatedChannel
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
