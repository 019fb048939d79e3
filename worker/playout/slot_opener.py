"""Opens items ahead of time and keeps them open: it retries lost sources and follows growing recordings.

It starts and ends the decoders, so only the main thread may call it.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterable

from worker.media.ffmpeg import Binary
from worker.media.sandbox import CannotConfine
from worker.playout.inputs.decoder import Decoder
from worker.playout.inputs.decoder_process import Feed
from worker.playout.inputs.item_inputs import (
    GROWN_SECONDS,
    CannotOpen,
    Growing,
    feed_of,
    follow_feed,
    place_in,
    read_growing,
)
from worker.playout.slots import LIVE, Slot
from worker.process.redaction import redact
from worker.wire.picture import Format

LIVE_RETRY_SECONDS = 1.5
LIVE_STALL_SECONDS = 8.0


class SlotOpener:
    """`note` gets the errors of live sources."""

    def __init__(self, binary: Binary, picture: Format, secrets: tuple[str, ...], note: Callable[[str], None]) -> None:
        self.binary, self.picture, self.secrets = binary, picture, secrets
        self._note = note

    def keep_open(self, slots: Iterable[Slot]) -> None:
        """The most urgent first."""
        for slot in slots:
            if slot.failure or slot.item.kind == "slate":
                continue
            if slot.decoder is not None and slot.decoder.lacks_a_stream:
                self._open_with_less(slot)
            elif slot.item.kind == LIVE:
                self._keep_live(slot)
            elif slot.decoder is None and not slot.is_over:
                self._open(slot)
            elif slot.item.kind == "growing":
                self._follow(slot)

    def _open(self, slot: Slot) -> None:
        item = slot.item
        try:
            if item.kind == "growing":
                growing = read_growing(item)
                if not growing.files:
                    raise CannotOpen("the recording has not begun")
                slot.part, seconds = place_in(growing, item.in_seconds + slot.offset_seconds)
                feed, offset = self._follow_feed(slot, growing, seconds)
            else:
                feed = feed_of(item, self.binary, is_endless=slot.is_filler)
                offset = 0.0 if feed.is_live else item.in_seconds + slot.offset_seconds
            slot.decoder = self._decoder(feed, offset, slot.streams or item.streams)
        except (CannotOpen, CannotConfine, OSError, subprocess.SubprocessError, RuntimeError) as error:
            text = redact(str(error), *self.secrets)
            if item.kind == LIVE:
                slot.retry_at = time.monotonic() + LIVE_RETRY_SECONDS
                self._note(f"{item.title}: {text}")
            else:
                slot.failure = text

    def _decoder(self, feed: Feed, offset: float, streams: str) -> Decoder:
        return Decoder(
            self.binary,
            self.picture,
            feed,
            offset_seconds=offset,
            streams=streams,
            secrets=self.secrets,
        )

    def _open_with_less(self, slot: Slot) -> None:
        """Open an item without sound or without picture. ffmpeg reports which one is missing only when it fails."""
        assert slot.decoder is not None
        tried = slot.decoder
        slot.decoder = None
        words = " ".join(tried.said)
        tried.end()
        slot.streams = "v" if "0:a" in words or "Output file #1" in words else "a"
        self._open(slot)

    def _keep_live(self, slot: Slot) -> None:
        """Open a lost source again until it is back, its time is over, or it is skipped."""
        decoder = slot.decoder
        if decoder is None:
            if time.monotonic() >= slot.retry_at:
                self._open(slot)
            return
        if decoder.is_drained or (decoder.frames_read and decoder.idle_seconds() > LIVE_STALL_SECONDS):
            self._note(f"{slot.item.title}: {decoder.words()}")
            slot.decoder = None
            slot.retry_at = time.monotonic() + LIVE_RETRY_SECONDS
            decoder.end()
        elif not decoder.frames_read and (refusal := decoder.refusal()):
            self._note(f"{slot.item.title}: {refusal}")
        elif decoder.is_overfull:
            decoder.catch_up()

    def _follow_feed(self, slot: Slot, growing: Growing, seconds: float) -> tuple[Feed, float]:
        number, item = slot.part, slot.item

        def is_over() -> bool:
            with contextlib.suppress(CannotOpen):
                now = read_growing(item)
                return number < len(now.ended) and now.ended[number]
            return False

        return follow_feed(growing.files[number], is_over, seconds, growing.lengths[number])

    def _follow(self, slot: Slot) -> None:
        """At the end of a part of a growing recording, open the next part, or end the item."""
        decoder = slot.decoder
        if decoder is None or slot.is_over or not decoder.is_drained:
            return
        try:
            growing = read_growing(slot.item)
        except CannotOpen:
            return
        if slot.part + 1 < len(growing.files):
            slot.part += 1
            feed, offset = self._follow_feed(slot, growing, 0.0)
            slot.decoder = self._decoder(feed, offset, slot.streams or slot.item.streams)
            decoder.end()
        elif growing.is_over or decoder.idle_seconds() > GROWN_SECONDS:
            slot.is_over = True
