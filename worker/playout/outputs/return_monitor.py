"""Receives one of the channel's outputs back through the network and measures what really arrives.

It decodes key frames only, so it costs little. It never affects the channel: it has its own process and thread.
"""

import math
import re
import time
from collections import deque
from collections.abc import Callable

from worker.media.ffmpeg import Binary, Ffmpeg
from worker.media.sources import Input, build_input
from worker.playout.outputs.supervised import Tended
from worker.wire.configuration import Source
from worker.wire.status import ReturnStatus

RETRY_SECONDS = 3.0
# Without progress for this long it connects again.
STALL_SECONDS = 8.0
# Progress comes twice a second. Later than this, the output is lost.
LATE_SECONDS = 2.0
# The filters report a freeze and a silence after this long.
NOTICED_SECONDS = 2.0
PICTURE = (
    "scale=160:-2:flags=fast_bilinear,blackdetect=d=0.1:pix_th=0.1,"
    f"freezedetect=n=-50dB:d={NOTICED_SECONDS},metadata=print:key=lavfi.black_start,metadata=print:key=lavfi.black_end"
)
SOUND = (
    f"silencedetect=n=-60dB:d={NOTICED_SECONDS},ebur128=metadata=1:framelog=verbose,ametadata=print:key=lavfi.r128.M"
)
# Loudness is the mean of the last half minute; what is quieter than the gate does not count.
LOUDNESS_VALUES, ENOUGH_VALUES, GATE_LUFS = 300, 100, -50.0
_BEGINS = re.compile(r"lavfi\.(black)_start=|(freeze)_start:|(silence)_start:")
_ENDS = re.compile(r"lavfi\.(black)_end=|(freeze)_end:|(silence)_end:")
_LOUDNESS = re.compile(r"lavfi\.r128\.M=(-?[\d.]+)")


class _Measuring(Ffmpeg):
    """Passes its messages on to `hears`, which returns True for a measurement."""

    def __init__(self, hears: Callable[[str], bool], binary: Binary, arguments: list[str], given: Input, *secrets: str):
        self._hears = hears
        super().__init__(binary, arguments, given.stdin, secrets, nice=10)

    def _hear(self, said: str) -> None:
        if not self._hears(said):
            super()._hear(said)


class ReturnMonitor(Tended):
    def __init__(self, binary: Binary, source: Source, secrets: tuple[str, ...]) -> None:
        super().__init__("return", "return")
        self.binary, self.source = binary, source
        self._secrets = secrets
        self._process: Ffmpeg | None = None
        self._spawned_at = 0.0
        self._lost_since: float | None = time.monotonic()
        self._since: dict[str, float] = {}
        self._momentary: deque[float] = deque(maxlen=LOUDNESS_VALUES)

    @property
    def state(self) -> str:
        return "receiving" if self._lost_since is None else "lost"

    def report(self) -> ReturnStatus:
        """What the receiver of this output sees and hears now."""
        return ReturnStatus(
            state=self.state,
            lost_seconds=self._seconds_since(self._lost_since),
            black_seconds=self._seconds_since(self._since.get("black")),
            frozen_seconds=self._seconds_since(self._since.get("freeze")),
            silent_seconds=self._seconds_since(self._since.get("silence")),
            loudness_lufs=self._loudness(),
            error=self.error,
        )

    def tend(self) -> None:
        now, process = time.monotonic(), self._process
        is_moving = process is not None and process.progress.changed_at is not None and process.is_running
        if process is not None and is_moving and process.idle_seconds() < LATE_SECONDS:
            self._lost_since = None
            self.error = ""
            return
        if self._lost_since is None:
            self._lost_since = now - LATE_SECONDS
            self._momentary.clear()
        if process is not None and process.is_running and process.idle_seconds() < STALL_SECONDS:
            return
        if now - self._spawned_at >= RETRY_SECONDS:
            self._connect(now)

    def finish(self) -> None:
        if self._process is not None:
            self._process.end(grace_seconds=0.5)

    def _connect(self, now: float) -> None:
        if self._process is not None:
            self._process.end(grace_seconds=0.5)
            self.error = self._process.last_words(1)
        self._spawned_at = now
        self._forget()
        given = build_input(self.source, can_look_up_names=not self.binary.is_static)
        arguments = ["-loglevel", "info", "-progress", "pipe:1", "-stats_period", "0.5", "-skip_frame", "nokey"]
        arguments += [
            *given.arguments,
            "-map",
            "0:v:0?",
            "-vf",
            PICTURE,
            "-map",
            "0:a:0?",
            "-af",
            SOUND,
            "-f",
            "null",
            "-",
        ]
        self._process = _Measuring(self._hear, self.binary, arguments, given, *self._secrets)

    def _forget(self) -> None:
        self._since.clear()
        self._momentary.clear()

    def _hear(self, line: str) -> bool:
        """True if the line is a measurement."""
        if found := _LOUDNESS.search(line):
            self._momentary.append(float(found.group(1)))
        elif found := _BEGINS.search(line):
            kind = next(word for word in found.groups() if word)
            self._since[kind] = time.monotonic() - (0.0 if kind == "black" else NOTICED_SECONDS)
        elif found := _ENDS.search(line):
            self._since.pop(next(word for word in found.groups() if word), None)
        else:
            return "metadata" in line
        return True

    def _loudness(self) -> float | None:
        values = [value for value in tuple(self._momentary) if value > GATE_LUFS]
        if len(values) < ENOUGH_VALUES:
            return None
        return round(10 * math.log10(sum(10 ** (value / 10) for value in values) / len(values)), 1)

    @staticmethod
    def _seconds_since(moment: float | None) -> float:
        return round(time.monotonic() - moment, 1) if moment is not None else 0.0
