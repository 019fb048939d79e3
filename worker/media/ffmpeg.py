"""Finds ffmpeg, starts it, reads its progress and ends it, leaving no process behind."""

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from worker.media.progress import Outage, Progress
from worker.media.sources import Feeder
from worker.process.parent_death import die_with
from worker.process.redaction import redact

KILL_SECONDS = 5.0
# How often ffmpeg reports. Between two reports ffmpeg 7.0 does not notice that it was asked to end.
REPORT_SECONDS = 0.1
# ffmpeg does not notice SIGTERM while it waits for data. A second one interrupts the waiting, but also the writing of
# what it holds back: it is sent only if the source is silent, or if ffmpeg has not ended after a while.
SILENT_SECONDS = 0.8
ASK_AGAIN_SECONDS = (0.2, 2.0)
# Shorter ones cannot be told from a busy machine.
OUTAGE_SECONDS = 1.0
DESCRIBED_LINES = 500
# After this much sound without a video stream, the source has no picture.
SOUND_SECONDS = 1.0
_PREFIX = re.compile(r"^\[[^\]]+ @ 0x[0-9a-f]+\] ")
_CHATTER = re.compile(
    r"^ffmpeg stats|pipe:0|^Exiting normally|^\s|^Input #|^Output #|^Stream mapping|^Press \[q\]"
    r"|Error opening input|Impossible to open|hls protocol is discouraged"
)
_FPS = re.compile(r"Stream #\S+.*Video:.*?([\d.]+) fps")
_NEW_TRACK = re.compile(r"New (video|audio) stream ")
_VIDEO = re.compile(r"Stream #\S+.*Video:")
# A card whose cable is pulled sends its own bars. Only its messages say so.
_CARD_LOST, _CARD_BACK = "No input signal detected", "Input returned"


@dataclass(frozen=True)
class Binary:
    """`is_static` marks the wheel's build, which needs numeric addresses and a GCONV_PATH without content."""

    path: str
    is_static: bool

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        kept["TZ"] = "UTC0"  # files are split by this clock, whatever the machine's own zone
        if self.is_static:
            # Otherwise the static program loads the system's character-set tables and crashes. The temp folder is not
            # safe here: another user could create the path first and have code loaded from it.
            kept["GCONV_PATH"] = os.devnull
        return kept


def find_binary() -> Binary | None:
    """The configured ffmpeg, else the one on PATH, else the wheel's."""
    chosen = os.environ.get("AIRLOCK_FFMPEG") or shutil.which("ffmpeg")
    if chosen:
        return Binary(chosen, is_static="imageio_ffmpeg" in chosen)
    fallback = os.environ.get("AIRLOCK_FFMPEG_FALLBACK")
    return Binary(fallback, is_static=True) if fallback else None


def warm_up(binary: Binary) -> None:
    """Run it once ahead of time, so that its libraries are in memory when the recording starts."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [binary.path, "-hide_banner", "-version"]
        subprocess.run(command, capture_output=True, timeout=5, env=binary.environment(), check=False)


def list_decklinks(binary: Binary) -> str:
    """ffmpeg's list of DeckLink devices."""
    command = [binary.path, "-hide_banner", "-sources", "decklink"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15, env=binary.environment(), check=False)
    return done.stdout + done.stderr


def words_of(said: Iterable[str], count: int = 2) -> str:
    """The last useful lines that ffmpeg printed."""
    words = [_PREFIX.sub("", line) for line in said if line and not _CHATTER.search(line)]
    return "; ".join(words[-count:])


class Ffmpeg:
    """One running ffmpeg. Create it on the main thread: the kernel ends it when that thread ends."""

    def __init__(
        self,
        binary: Binary,
        arguments: list[str],
        stdin: bytes,
        secrets: tuple[str, ...],
        nice: int = 0,
        *,
        is_copy: bool = False,
        pass_fds: tuple[int, ...] = (),
        feeder: Feeder | None = None,
    ) -> None:
        self.progress = Progress()
        self._secrets = secrets
        self._feeder = feeder
        self._is_ending = False
        self._nice = nice
        self._is_copy = is_copy
        self._parent = os.getpid()
        self.spawned_at = time.monotonic()
        self.process = subprocess.Popen(
            # No -nostdin, and no input whose name begins with "pipe:": with them, ffmpeg 7.0 ignores the first SIGTERM.
            [binary.path, "-hide_banner", "-nostats", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=binary.environment(),
            preexec_fn=self._in_child,
            pass_fds=(*pass_fds, feeder.descriptor) if feeder else pass_fds,
        )
        self._threads = [
            threading.Thread(target=self._feed, args=[stdin], daemon=True),
            threading.Thread(target=self._read_progress, daemon=True),
            threading.Thread(target=self._read_messages, daemon=True),
        ]
        if feeder:
            os.close(feeder.descriptor)
            self._threads.append(threading.Thread(target=feeder.run, daemon=True))
        for thread in self._threads:
            thread.start()

    def _in_child(self) -> None:
        die_with(self._parent, signal.SIGKILL)
        if self._nice:
            os.nice(self._nice)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def ask_to_end(self) -> None:
        self._is_ending = True
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)

    def end(self, grace_seconds: float = 5.0) -> int:
        """Ask ffmpeg to finish its file, and kill it after the grace time. Returns the exit code."""
        is_silent = self.idle_seconds() > SILENT_SECONDS
        self.ask_to_end()
        try:
            if self._is_copy and grace_seconds:
                self._ask_again(ASK_AGAIN_SECONDS[0 if is_silent or self._feeder else 1])
            self.process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            # Stuck in the kernel: leave it, and continue recording.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(KILL_SECONDS)
        if self._feeder:
            self._feeder.stop()
        for thread in self._threads:
            thread.join(timeout=2)
        code = self.process.poll()
        return -signal.SIGKILL if code is None else code

    def _ask_again(self, after_seconds: float) -> None:
        try:
            self.process.wait(after_seconds)
        except subprocess.TimeoutExpired:
            if self._feeder:
                self._feeder.stop()
            else:
                self.process.send_signal(signal.SIGTERM)

    def idle_seconds(self) -> float:
        """Seconds since the last progress, or since the start if there was none."""
        return time.monotonic() - (self.progress.changed_at or self.spawned_at)

    def picture_idle_seconds(self) -> float:
        """Seconds without a picture: no frames came, or the card reports that it has no signal."""
        progress = self.progress
        if progress.card_lost_at is not None:
            return time.monotonic() - progress.card_lost_at
        return time.monotonic() - (progress.picture_at or progress.changed_at or self.spawned_at)

    @property
    def has_content(self) -> bool:
        """There was a picture, or sound from a source that has only sound."""
        progress = self.progress
        return bool(progress.frames) or (progress.out_seconds >= SOUND_SECONDS and not progress.has_video)

    def last_words(self, lines: int = 4) -> str:
        """The last useful lines that it printed."""
        return words_of(self.progress.lines, lines)

    def _feed(self, stdin: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(stdin)
            self.process.stdin.close()
        except BrokenPipeError:
            return  # ffmpeg ended before it read its list; its exit code says why

    def _read_progress(self) -> None:
        assert self.process.stdout is not None
        frames, seconds = 0, 0.0
        with self.process.stdout as told:
            for raw in told:
                name, _, value = raw.decode(errors="replace").strip().partition("=")
                if name == "frame" and value.isdigit():
                    frames = int(value)
                elif name == "out_time_us" and value.lstrip("-").isdigit():
                    seconds = max(0.0, int(value) / 1_000_000)
                elif name == "progress":
                    self._note(frames, seconds)

    def picture_seconds(self) -> float:
        """The length of the picture so far."""
        lead = self.progress.lead_seconds
        return max(0.0, self.progress.out_seconds - (0.0 if math.isinf(lead) else lead))

    def picture_age_seconds(self) -> float | None:
        """Seconds since the first frame, as precisely as known; None before the first frame."""
        progress = self.progress
        if math.isinf(progress.zero_at):
            return None
        began = progress.zero_at + (0.0 if math.isinf(progress.lead_seconds) else progress.lead_seconds)
        return max(0.0, time.monotonic() - began)

    def last_frame_age_seconds(self) -> float | None:
        """Seconds since the last frame; None before the first one."""
        progress = self.progress
        if progress.changed_at is None or math.isinf(progress.zero_at):
            return None
        last = min(progress.changed_at, progress.zero_at + progress.out_seconds + progress.slipped_seconds)
        return max(0.0, time.monotonic() - last)

    def _note_outage(self, seconds: float) -> None:
        """Something arrived again: what was missed? A sender that starts again may be at any time of its own."""
        progress, now = self.progress, time.monotonic()
        if not self._is_copy or self._is_ending:  # what ffmpeg held back does not arrive now
            return
        if progress.changed_at is None or now - progress.changed_at < OUTAGE_SECONDS:
            return
        slipped = max(0.0, now - (progress.zero_at + seconds + progress.slipped_seconds))
        progress.slipped_seconds += slipped
        progress.outages.append(Outage(progress.changed_at, now, slipped))

    def _note(self, frames: int, seconds: float) -> None:
        progress = self.progress
        if seconds > progress.out_seconds:
            self._note_outage(seconds)
        if seconds and not progress.outages:
            progress.zero_at = max(self.spawned_at, min(progress.zero_at, time.monotonic() - seconds))
        if frames and progress.fps and self._is_copy:
            progress.lead_seconds = min(progress.lead_seconds, max(0.0, seconds - frames / progress.fps))
        if frames > progress.frames:
            progress.picture_at = time.monotonic()
        if not frames and progress.fps and self._is_copy:
            frames = round(seconds * progress.fps)  # ffmpeg 7 does not count copied frames
        if seconds > progress.out_seconds or frames > progress.frames:
            progress.changed_at = time.monotonic()
        progress.frames, progress.out_seconds = max(frames, progress.frames), max(seconds, progress.out_seconds)

    def _read_messages(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as said:
            for raw in said:
                self._hear(raw.decode(errors="replace").rstrip())

    def _hear(self, said: str) -> None:
        progress, found = self.progress, _FPS.search(said)
        if said.startswith(("Input #", "Output #", "Stream mapping")):
            progress.is_describing = said.startswith("Input #")
        elif progress.is_describing and len(progress.described) < DESCRIBED_LINES:
            progress.described.append(said)
        if found and progress.fps is None:
            progress.fps = float(found.group(1))
        if _VIDEO.search(said):
            progress.has_video = True
        elif _NEW_TRACK.search(said):
            progress.has_new_track = True
        elif _CARD_LOST in said:
            progress.card_lost_at = progress.card_lost_at or time.monotonic()
        elif _CARD_BACK in said:
            progress.card_lost_at = None
        progress.lines.append(redact(said, *self._secrets))
