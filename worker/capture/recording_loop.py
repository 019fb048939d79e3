"""Records one source into numbered parts until the end time.

Only the main thread starts and ends ffmpeg. Four times a second it checks the progress, the end time and the free disk
space. If ffmpeg dies or freezes, a new part begins within seconds. A lost source is tried again until the end. A full
disk ends the recording cleanly and keeps every byte.
"""

import subprocess
import threading
import time
from datetime import datetime, timedelta

from worker.capture.borders import lead_seconds, retry_seconds
from worker.capture.ffmpeg_outputs import copying, encoding, file_output, tee
from worker.capture.folders import Folders
from worker.capture.inputs import build_capture_input
from worker.capture.journal import Journal, now_in_milliseconds
from worker.capture.picture_loss import PictureLoss
from worker.capture.reasons import (
    CHANGED,
    DIED,
    DISK_FULL,
    ENDED,
    FINAL,
    NO_PICTURE,
    NUMBER_TAKEN,
    SOURCE_LOST,
    STALLED,
    STOPPED,
    WORDS,
)
from worker.capture.splitting import Splitter, Take
from worker.capture.status import status_of
from worker.media.disk_space import free_bytes
from worker.media.ffmpeg import REPORT_SECONDS, Binary, Ffmpeg, list_decklinks, warm_up
from worker.media.preview import Preview
from worker.media.refusals import refusal_in
from worker.media.sources import is_listener, nth_decklink
from worker.process.config_line import ConfigError
from worker.process.redaction import redact
from worker.process.station_clock import clock
from worker.wire.commands import End, SetClock
from worker.wire.configuration import CaptureConfig, Control
from worker.wire.parts_and_gaps import Part
from worker.wire.status import CaptureStatus

LOOK_SECONDS = 0.25
STALL_SECONDS = 15.0
NO_SIGNAL_SECONDS = 3.0
# The source sends its picture as another track: ffmpeg does not record it, a new one does.
CHANGED_SECONDS = 0.8
# Nothing gets lost on the way from these sources; it may come late.
WHOLE, RAW = ("hls", "rtmp", "rtsp"), ("decklink", "test")
WARM_UP_SECONDS = 2.0


class Capture:
    def __init__(self, control: Control, config: CaptureConfig, folders: Folders, binary: Binary) -> None:
        self.control = control
        self.config = config
        self.binary = binary
        self.ends_at = config.ends_at
        self.state = "starting"
        self.error = ""
        self.restarts = 0
        self.take: Take | None = None  # replaced as a whole, so that /status reads a consistent one
        self.started_at = now_in_milliseconds()
        self.first_byte_at: datetime | None = None
        self.preview_folder = folders.preview
        self.journal = Journal.open(folders.recording, config.name, config.container)
        self.known_parts = 0
        self._first_part = config.first_part
        self._stop = threading.Event()
        self._loss = PictureLoss(self.journal, is_whole=config.source.type in WHOLE, is_raw=config.source.type in RAW)
        self.looked_at = time.monotonic()

    def ask_to_stop(self) -> None:
        self._stop.set()

    def take_end(self, command: End) -> None:
        """The end of the window was moved while it is being recorded."""
        self.ends_at = command.ends_at

    def take_clock(self, command: SetClock) -> None:
        """The control plane corrects our clock: the times of the file being written move with it."""
        self.journal.move_open_parts(clock.take(command))

    def record(self) -> str:
        """Record part after part until there is a final reason to end; return that reason."""
        preview = Preview(self.binary, self.preview_folder) if self.preview_folder else None
        failures = 0
        self._wait_for_beginning()
        reason = self._reason_to_end()
        while reason not in FINAL:
            reason, had_frames = self._record_part(preview)
            if reason in FINAL:
                break
            self.restarts += 1
            failures = 0 if had_frames else failures + 1
            if not had_frames:
                self.state = "no_signal"
            self.looked_at = time.monotonic()
            self._stop.wait(retry_seconds(self.config, failures, has_parts=bool(self.journal.parts)))
            reason = self._reason_to_end()
        self.state = "done"
        if preview:
            preview.end()
        return reason

    def _wait_for_beginning(self) -> None:
        """Wait for the window to open. The source is not opened before."""
        begins_at = self.config.begins_at
        lead = lead_seconds(self.config)
        if begins_at is not None and (begins_at - clock.moment()).total_seconds() > WARM_UP_SECONDS:
            warm_up(self.binary)
        while begins_at is not None and not self._reason_to_end():
            left = (begins_at - clock.moment()).total_seconds() - lead
            if left <= 0:
                return
            self.state = "waiting"
            self._stop.wait(min(LOOK_SECONDS, left))

    def status(self, parts_after: int = 0) -> CaptureStatus:
        """The answer to GET /status. A caller that knows the first parts asks only for later ones: a split recording of
        a week has thousands."""
        self.known_parts = max(self.known_parts, parts_after)
        return status_of(self, parts_after)

    def has_signal(self) -> bool:
        take = self.take
        return bool(take and take.ffmpeg.has_content and take.ffmpeg.picture_idle_seconds() < NO_SIGNAL_SECONDS)

    def _record_part(self, preview: Preview | None) -> tuple[str, bool]:
        """Run one ffmpeg from start to end; return why it ended and whether it got a picture."""
        try:
            feed = build_capture_input(
                self.config.source,
                can_look_up_names=not self.binary.is_static,
                device_name=lambda index: nth_decklink(list_decklinks(self.binary), index),
            )
        except (ConfigError, OSError, subprocess.SubprocessError) as error:
            self.error = redact(str(error), *self.config.secrets)
            return SOURCE_LOST, False
        part, splitter = self._begin_part()
        arguments = ["-loglevel", "info", "-progress", "pipe:1", "-stats_period", str(REPORT_SECONDS)]
        container = self.config.container
        output = splitter.slave(part, container) if splitter else file_output(self.journal, part, container)
        codec = (
            encoding(self.config, is_split=splitter is not None) if feed.is_raw else copying(self.config, self.binary)
        )
        arguments += [*feed.arguments, *codec, *tee(output, preview.port if preview else None)]
        ffmpeg = Ffmpeg(
            self.binary,
            arguments,
            feed.stdin,
            self.config.secrets,
            is_copy=not feed.is_raw,
            pass_fds=(splitter.descriptor,) if splitter else (),
            feeder=feed.feeder,
        )
        self.take = Take(part, ffmpeg)
        if splitter:
            splitter.close()
        reason = self._watch(ffmpeg, preview, splitter)
        self._loss.note_end(self.take, ffmpeg)
        code = ffmpeg.end(grace_seconds=1 if reason == STALLED else 5)
        if reason not in FINAL:
            said = refusal_in(ffmpeg.progress.lines, self.config.source.type) or ffmpeg.last_words()
            if "No space left on device" in said:
                reason = DISK_FULL
            self.error = f"{WORDS[reason]}: {said}" if said else f"{WORDS[reason]} (exit code {code})"
        return reason, self._finish(splitter, reason)

    def _finish(self, splitter: Splitter | None, reason: str) -> bool:
        """ffmpeg has ended: measure and close its last file. True if there was any picture."""
        take = self.take
        assert take is not None
        if splitter:
            self.take = take = splitter.end(take)
        take.measure(self.journal)
        had_frames = take.ffmpeg.has_content
        if reason == NUMBER_TAKEN:
            self._number_after(take.part)
        else:
            self.journal.finish(take.part, reason)
        self.take = None
        return had_frames

    def _begin_part(self) -> tuple[Part, Splitter | None]:
        """Reserve a new file, and for a split recording the one after it."""
        every = self.config.split_seconds
        while True:
            part = self.journal.begin(self._first_part, clock.moment())
            if not every:
                return part, None
            splitter = Splitter(self.journal, part, every, self.config.split_offset_seconds)
            if splitter.can_go_on:
                return part, splitter
            splitter.close()
            self._number_after(part)

    def _number_after(self, part: Part) -> None:
        """Another media worker has the number after this part: continue with the number after that."""
        self._first_part = part.number + 2
        self.journal.finish(part, NUMBER_TAKEN)

    def _go_over(self, splitter: Splitter | None) -> Take:
        """The file that is being written: the same as before, or after a split the next one."""
        assert self.take is not None
        if splitter:
            self.take = splitter.go_over(self.take)
        return self.take

    def _watch(  # noqa: C901  one poll of everything that can end a part
        self, ffmpeg: Ffmpeg, preview: Preview | None, splitter: Splitter | None
    ) -> str:
        """Watch one ffmpeg until there is a reason to end it, or it ends by itself."""
        self.state = "connecting"
        self._loss.forget()
        saved_at = time.monotonic()
        while True:
            self._stop.wait(min(LOOK_SECONDS, max(0.0, self._seconds_left())))
            take = self._go_over(splitter)
            part = take.part
            if ffmpeg.has_content and not part.first_frame_at:
                self._note_first_frame(ffmpeg, part)
            if self.first_byte_at is None and self.journal.has_bytes_in(part.number):
                self.first_byte_at = now_in_milliseconds()
            reason = self._reason_to_end()
            if reason:
                return reason
            if splitter and not splitter.can_go_on:
                return NUMBER_TAKEN
            if not ffmpeg.is_running:
                return SOURCE_LOST if ffmpeg.process.returncode in {0, 1} or not part.first_frame_at else DIED
            if ffmpeg.idle_seconds() > STALL_SECONDS and (part.first_frame_at or not is_listener(self.config.source)):
                return STALLED
            if ffmpeg.progress.has_new_track and ffmpeg.picture_idle_seconds() > CHANGED_SECONDS:
                return CHANGED
            self._loss.note_outages(part, ffmpeg)
            if part.first_frame_at:
                self._note_signal(ffmpeg, part)
            else:
                self._note_waiting(ffmpeg)
            if time.monotonic() - saved_at > 2:
                saved_at = time.monotonic()
                take.measure(self.journal)
                self.journal.save()
            if part.first_frame_at:
                self._keep_preview(preview)  # not before: at the start the recording needs the processor

    def _note_waiting(self, ffmpeg: Ffmpeg) -> None:
        """There is no picture yet: say so, and why, if the other side refuses us."""
        if refusal := refusal_in(ffmpeg.progress.lines, self.config.source.type):
            self.state, self.error = "no_signal", refusal
        elif ffmpeg.idle_seconds() > NO_SIGNAL_SECONDS:
            self.state = "no_signal"

    def _note_signal(self, ffmpeg: Ffmpeg, part: Part) -> None:
        """Follow whether there is a picture within a running part."""
        idle = ffmpeg.picture_idle_seconds()
        if idle >= NO_SIGNAL_SECONDS:
            self.state = "no_signal"
            self.error = WORDS[NO_PICTURE]
            self._loss.note_lost(ffmpeg)
            return
        self.state = "recording"
        if self._loss.note_back(part, idle):
            self.error = ""

    def _note_first_frame(self, ffmpeg: Ffmpeg, part: Part) -> None:
        age = ffmpeg.picture_age_seconds() or 0.0
        self.journal.note_first_frame(part, clock.moment() - timedelta(seconds=age))
        self.state, self.error = "recording", ""

    def _keep_preview(self, preview: Preview | None) -> None:
        """A failing preview must not end the recording."""
        try:
            if preview:
                preview.keep_running()
        except OSError as error:
            print(f"The preview could not be started. error={error}", flush=True)

    def _reason_to_end(self) -> str:
        self.looked_at = time.monotonic()
        if self._stop.is_set():
            return STOPPED
        if self._seconds_left() <= 0:
            return ENDED
        free = free_bytes(self.journal.folder)
        if free is not None and free < self.config.min_free_bytes:
            self.error = f"only {free // (1024 * 1024)} MB are free"
            return DISK_FULL
        return ""

    def _seconds_left(self) -> float:
        return (self.ends_at - clock.moment()).total_seconds() if self.ends_at else float("inf")
