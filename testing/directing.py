"""A director of a channel on a simulated clock, frame by frame. Slates of given lengths stand for clips."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from worker.playout.asrun_spool import Spool
from worker.playout.director import Director
from worker.playout.loaded_config import ChannelSetup, Item, Rundown
from worker.wire.configuration import Control
from worker.wire.picture import Format

RATE = 5
BEGIN = 1_000_000.0


def item(key: str, seconds: float | None = 10.0, *fixed: float, **more: Any) -> Item:
    return Item(key, more.pop("kind", "slate"), key, seconds=seconds, fixed_at=fixed, **more)


def missing(key: str, *fixed: float, **more: Any) -> Item:
    """An item that cannot be opened."""
    return item(key, 10.0, *fixed, kind="asset", **more)


class SimulatedChannel:
    """A director with a simulated clock and a main loop that opens nothing."""

    def __init__(self, folder: Path, *items: Item, **more: Any) -> None:
        resume = more.pop("resume", None)
        rundown = Rundown("1", items, more.pop("is_loop", False), more.pop("begins_at", None), **more)
        config = ChannelSetup(
            control=Control(owner="channel:1", generation=1, token="", host="", port=0),
            media=folder,
            format=Format(16, 16, Fraction(RATE)),
            outputs=(),
            rundown=rundown,
            filler=None,
            resume=resume,
            slate="black",
            pause="hold",
            preview=None,
            spool=folder,
            video_bitrate="1M",
            audio_bitrate="96k",
            isolation_seconds=None,
            secrets=(),
        )
        self.ticks = 0
        self.spool = Spool(folder, 1)
        self.director = Director(config, self.spool, BEGIN, lambda: None)

    @property
    def now(self) -> float:
        return BEGIN + self.ticks / RATE

    def run(self, until: float) -> None:
        """Tick up to `until` seconds after BEGIN."""
        while self.ticks < until * RATE:
            for slot in self.director.wishes(self.now):
                if slot.item.kind == "asset":
                    slot.failure = "the file is missing"
            self.director.tick(self.now)
            self.director.take_finished()
            self.ticks += 1

    def load(self, *items: Item, **more: Any) -> None:
        self.director.load(Rundown("2", items, more.pop("is_loop", False), more.pop("begins_at", None)), self.now)

    def asrun(self) -> list[tuple[str, float, str]]:
        """(key, seconds, reason) of every item of the list that has ended."""
        entries = sorted(self.spool.since(0).entries, key=lambda entry: entry.seq)
        return [(entry.key, entry.frames / RATE, entry.reason) for entry in entries if entry.key and entry.ended_at]
