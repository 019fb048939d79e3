"""The main thread of playout: opens the next items, closes finished ones and keeps the encoder running.

Only this thread starts and ends the encoder and the decoders; outputs have their own threads. The pacer thread gives
the encoder one frame at a time by the clock and never waits for the main thread. An error in one pass is reported and
the next pass tries again: a channel does not end because an item cannot be opened.
"""

import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime

from worker.media.ffmpeg import Binary
from worker.playout.director import Director
from worker.playout.director_status import DirectorStatus
from worker.playout.loaded_config import ChannelSetup
from worker.playout.outputs.arguments import stream_rate
from worker.playout.outputs.datagrams import DatagramOutput
from worker.playout.outputs.decklink import Card
from worker.playout.outputs.encoder import Encoder
from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.return_monitor import ReturnMonitor
from worker.playout.outputs.senders import FileSender, OutputSender, PreviewSender
from worker.playout.outputs.srt import SrtSender, is_listening
from worker.playout.outputs.srt_listener import SrtListener
from worker.playout.outputs.supervised import Tended
from worker.playout.picture import silence
from worker.playout.pipes import Data
from worker.playout.slot_opener import SlotOpener
from worker.playout.slots import moment_of
from worker.process.redaction import redact
from worker.process.station_clock import clock
from worker.wire.configuration import Output
from worker.wire.status import PlayoutStatus

LOOK_SECONDS = 0.05
# If the pacer is behind the clock by more than this, it starts counting again instead of catching up.
BEHIND_SECONDS = 2.0
# An encoder that ends sooner than this is not replaced at once.
SHORT_LIFE_SECONDS, ENCODER_PAUSE_SECONDS = 2.0, 0.5
NOTE_SECONDS = 10.0
# After this long without a dropped frame, the encoder keeps up again.
KEPT_UP_SECONDS = 10.0
SLOW_SECONDS = 1.0


class MainLoop:
    def __init__(self, config: ChannelSetup, binary: Binary, director: Director, wake: threading.Event) -> None:
        self.config, self.binary, self.director = config, binary, director
        self.started_at = moment_of(clock.now())
        self.first_frame_at: datetime | None = None
        self.encoder: Encoder | None = None
        self.encoder_restarts = 0
        self.dropped = 0
        self._dropped_at = self._dropping_since = -1e9
        self.resyncs = 0
        self.error = ""
        self.slowest_look_seconds = 0.0
        self._wake = wake
        self._frames_before = 0
        self._bytes_before = 0
        self._frame_at = time.monotonic()
        self._bars = 0  # ticks in a row with nothing else to show
        self._encoder_at = 0.0
        self._looked_at = self._noted_at = time.monotonic()
        self._ticks = 0
        self._stop = threading.Event()
        self._pacer = threading.Thread(target=self.pace, daemon=True, name="pacer")
        self.fan = Fan()
        self.cards = [Card(binary, config.format, each) for each in config.outputs if each.type == "decklink"]
        self.secrets = config.secrets
        self.opener = SlotOpener(binary, config.format, config.secrets, self._note_error)
        streamed = [each for each in config.outputs if each.type != "decklink"]
        self.outputs: list[Tended] = [*self.cards, *(self._sender(each) for each in streamed)]
        if config.preview is not None:
            self.outputs.append(PreviewSender(binary, self.fan, config.preview))
        self.monitor = ReturnMonitor(binary, config.monitored, self.secrets) if config.monitored else None

    def _tended(self) -> list[Tended]:
        return [*self.outputs, self.monitor] if self.monitor else self.outputs

    def _sender(self, output: Output) -> Tended:
        if output.type in {"udp", "rtp"}:
            return DatagramOutput(self.fan, output, stream_rate(output, self.config))
        common = (self.binary, self.fan, output, self.secrets)
        if output.type == "srt":
            kind = SrtListener if is_listening(output) else SrtSender
            return kind(*common, stream_rate(output, self.config))
        return FileSender(*common, self.config.min_free_bytes) if output.type == "file" else OutputSender(*common)

    def learn(self, words: Iterable[str]) -> None:
        """Add the secrets of a new list. They are never printed."""
        self.secrets = tuple(sorted({*self.secrets, *words}, key=len, reverse=True))
        self.opener.secrets = self.secrets

    # --- the pacer --------------------------------------------------------------------------------------------------

    def pace(self) -> None:
        """Send each frame at its time. If it is late, it catches up without a gap."""
        period = float(1 / self.config.format.rate)
        began, number = time.monotonic(), 0
        while not self._stop.is_set():
            due = began + number * period
            wait = due - time.monotonic()
            if wait > 0:
                self._stop.wait(wait)
                continue
            if -wait > BEHIND_SECONDS:  # the machine was suspended: start counting again
                began, number = time.monotonic(), 0
                self.resyncs += 1
            frame, sound = self._next_frame()
            self._ticks += 1
            self._bars = self._bars + 1 if frame is self.director.slate and not self.director.means_slate else 0
            encoder = self.encoder
            if encoder is None or not encoder.put(frame, sound):
                self._note_drop()
            for card in self.cards:
                card.put(frame, sound)
            number += 1

    def _note_drop(self) -> None:
        now = time.monotonic()
        if now - self._dropped_at > KEPT_UP_SECONDS:
            self._dropping_since = now
        self.dropped, self._dropped_at = self.dropped + 1, now

    def _dropping_seconds(self) -> float:
        """For how long frames have been dropped repeatedly."""
        is_over = time.monotonic() - self._dropped_at > KEPT_UP_SECONDS
        return 0.0 if is_over else self._dropped_at - self._dropping_since

    def _next_frame(self) -> tuple[Data, bytes]:
        try:
            return self.director.tick(clock.now())
        except Exception as error:  # noqa: BLE001  a bug in the list's logic must not stop the picture
            self._report("the director", error)
            return self.director.slate, silence(self.config.format.samples_of(self._ticks))

    # --- the main thread --------------------------------------------------------------------------------------------

    def run(self, should_end: "threading.Event") -> None:
        self._try("the encoder", self._keep_encoder)
        for each in self._tended():
            each.start()
        self._pacer.start()  # from here on there is a picture, whatever delays the rest
        self._try("the list", self._open_slots)
        while not should_end.is_set():
            self._looked_at = time.monotonic()
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            self._try("the encoder", self._keep_encoder)
            self._try("the list", self._open_slots)
            self._try("finished items", self._close_finished)
            if not self._pacer.is_alive():  # no frames go out, so the media worker must end
                print("The pacer thread died.", flush=True)
                break
            if self._looked_at - self._noted_at > NOTE_SECONDS:
                self._noted_at = self._looked_at
                self.director.note_progress()
        self._stop.set()
        self._pacer.join(2)

    def _try(self, what: str, act: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            act()
        except Exception as error:  # noqa: BLE001  no processes, no memory, no disk: the next pass tries again
            self._report(what, error)
        took = time.monotonic() - began
        self.slowest_look_seconds = max(self.slowest_look_seconds, took)
        if took > SLOW_SECONDS:  # items are opened four seconds ahead, so a longer pass shows on air
            print(f"A pass of the main loop was slow. what={what} seconds={took:.1f}", flush=True)

    def _report(self, what: str, error: Exception) -> None:
        text = redact(f"{what}: {type(error).__name__}: {error}", *self.secrets)
        if text != self.error:
            self.error = text
            print(text, flush=True)

    def close(self, reason: str) -> None:
        """End the encoder first, so that its last frames are complete; then all outputs at the same time."""
        self.director.close(clock.now(), reason)
        if self.encoder is not None:
            self.encoder.end(1.0)
        for each in self._tended():
            each.end()
        for each in self._tended():
            each.join(3.0)
        for slot in self.director.everything():
            if slot.decoder is not None:
                slot.decoder.end()
        self.director.spool.close()

    def _keep_encoder(self) -> None:
        encoder = self.encoder
        if encoder is not None and encoder.frames_out and self.first_frame_at is None:
            self.first_frame_at = moment_of(clock.now())
        if encoder is not None and encoder.is_running and not encoder.is_stuck:
            return
        now = time.monotonic()
        if encoder is not None:
            self.error = f"the encoder was replaced: {encoder.words()}"
            print(self.error, flush=True)
            self.encoder = None
            self._frames_before += encoder.frames_out
            self._bytes_before += encoder.bytes_out
            if encoder.frames_out:  # an encoder without output is not a sign of life
                self._frame_at = max(self._frame_at, encoder.moved_at)
            self.encoder_restarts += 1
            self._encoder_at = now + (ENCODER_PAUSE_SECONDS if now - encoder.spawned_at < SHORT_LIFE_SECONDS else 0.0)
            encoder.end(0.0)
        if time.monotonic() >= self._encoder_at:
            self._encoder_at = now + ENCODER_PAUSE_SECONDS
            self.fan.forget()
            begins_at = self.config.format.seconds_of(self._ticks)
            self.encoder = Encoder(self.binary, self.config, begins_at, self.fan.put)

    # --- items ------------------------------------------------------------------------------------------------------

    def _open_slots(self) -> None:
        self.opener.keep_open(self.director.wishes(clock.now()))

    def _note_error(self, text: str) -> None:
        self.error = text

    def _close_finished(self) -> None:
        for slot in self.director.take_finished():
            if slot.decoder is not None:
                slot.decoder.end()
                slot.decoder = None

    # --- status -----------------------------------------------------------------------------------------------------

    def status(self, director: DirectorStatus, asrun_revision: int) -> PlayoutStatus:
        encoder = self.encoder
        frames = self._frames_before + (encoder.frames_out if encoder else 0)
        # The encoder's own count: a blocked main loop does not stop the picture.
        moved_at = max(self._frame_at, encoder.moved_at if encoder and encoder.frames_out else 0.0)
        return PlayoutStatus(
            owner=self.config.control.owner,
            generation=self.config.control.generation,
            state=director.state,
            rundown=director.rundown,
            item=director.item,
            next=director.next,
            place=director.place,
            repeats=director.repeats,
            list_failed_seconds=director.list_failed_seconds,
            asrun_revision=asrun_revision,
            frames=frames,
            bytes=self._bytes_before + (encoder.bytes_out if encoder else 0),
            ticks=self._ticks,
            last_frame_age_seconds=round(time.monotonic() - moved_at, 2) if frames else None,
            bars_seconds=round(self.config.format.seconds_of(self._bars), 1),
            first_frame_at=self.first_frame_at,
            started_at=self.started_at,
            loop_age_seconds=round(time.monotonic() - self._looked_at, 1),
            encoder_restarts=self.encoder_restarts,
            dropped=self.dropped,
            dropping_seconds=round(self._dropping_seconds(), 1),
            resyncs=self.resyncs,
            slowest_look_seconds=round(self.slowest_look_seconds, 2),
            outputs=tuple(output.status() for output in self.outputs),
            returned=self.monitor.report() if self.monitor else None,
            error=self.error,
            clock=clock.reading(),
        )
