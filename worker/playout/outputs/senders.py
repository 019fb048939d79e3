"""The senders: for each output, a small ffmpeg that sends the channel's stream.

A sender that fails, hangs or is refused never affects the encoder or another output. It loses some of the stream, and
its own thread restarts it. The command line contains addresses without secrets; secrets are passed as a preset through
a file descriptor.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from worker.media.disk_space import free_bytes
from worker.media.ffmpeg import Binary, words_of
from worker.media.preview import clear_preview, preview_outputs
from worker.media.refusals import refusal_in
from worker.playout.outputs.arguments import arguments_for
from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.supervised import Tended
from worker.playout.pipes import Pump
from worker.process.config_line import ConfigError
from worker.process.parent_death import die_with
from worker.process.redaction import redact
from worker.wire.configuration import Output
from worker.wire.status import OutputStatus

QUEUE_BYTES = 8 * 1024 * 1024
RETRY_SECONDS = (0.5, 1.0, 1.0, 2.0)
# After running this long, earlier failures are forgotten.
SETTLED_SECONDS = 10.0
STALL_SECONDS = 4.0
ROOM_SECONDS = 1.0
# Our stream starts with its tables and a key frame. ffmpeg analyses as much of it as it may, and sends nothing
# meanwhile.
STREAM = ["-f", "mpegts", "-probesize", "1000000", "-analyzeduration", "300000"]
STREAM += ["-fpsprobesize", "0", "-i", "pipe:0"]
# Start, analysis, and at most a second and a half to connect (see srt_options).
CONNECT_SECONDS = 3.0


class Sender(Tended):
    """The encoder's thread feeds it."""

    def __init__(self, binary: Binary, fan: Fan, key: str, kind: str, secrets: tuple[str, ...]) -> None:
        super().__init__(key, kind)
        self.binary, self.fan = binary, fan
        self.bytes_sent = 0
        self._secrets = secrets
        self._said: deque[str] = deque(maxlen=30)
        self._process: subprocess.Popen[bytes] | None = None
        self._pump: Pump | None = None
        self._listener: threading.Thread | None = None
        self._spawned_at = 0.0
        self._next_at = 0.0
        self._failures = 0
        self._written, self._written_at = 0, 0.0

    @abstractmethod
    def command(self) -> tuple[list[str], dict[str, str]]:
        """Arguments after the stream, and secret options."""

    @property
    def nice(self) -> int:
        return 0

    @property
    def settling_seconds(self) -> float:
        """A sender that runs longer than this has reached its receiver."""
        return 1.0

    @property
    def inputs(self) -> list[str]:
        """How ffmpeg reads the stream."""
        return STREAM

    def attach(self, pump: Pump) -> None:
        """From here on the stream goes into the pump."""
        self.fan.join(pump.put)

    def detach(self, pump: Pump) -> None:
        self.fan.leave(pump.put)

    def explain(self, said: Iterable[str]) -> str:
        """Why ffmpeg ended, for people."""
        return words_of(said)

    @property
    def state(self) -> str:
        if self._process is None or self._process.poll() is not None:
            return "waiting" if self.error else "starting"
        if self._pump and self._pump.written and time.monotonic() - self._spawned_at > self.settling_seconds:
            return "sending"
        return "starting"

    def status(self) -> OutputStatus:
        pump = self._pump
        return replace(super().status(), bytes=self.bytes_sent + (pump.written if pump else 0))

    def tend(self) -> None:
        """Start or restart the sender."""
        now = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None and not self._is_stuck(now):
                if now - self._spawned_at > SETTLED_SECONDS:
                    self._failures, self.error = 0, ""
                return
            self._bury(now)
        if now >= self._next_at:
            self._spawn(now)

    def _is_stuck(self, now: float) -> bool:
        """It accepts no data although there is data to send."""
        pump = self._pump
        if pump is None or pump.is_broken:
            return True
        if pump.written != self._written or not pump.is_holding:
            self._written, self._written_at = pump.written, now
        return now - self._written_at > STALL_SECONDS

    def _bury(self, now: float) -> None:
        process, pump = self._process, self._pump
        assert process is not None
        assert pump is not None
        if process.poll() is None:
            process.kill()
            self._said.append("it accepted no more data")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        self.detach(pump)
        pump.close()
        if self._listener is not None:
            self._listener.join(1)
        self.error = redact(self.explain(self._said) or f"ended with {process.returncode}", *self._secrets)
        self.bytes_sent += pump.written
        self.restarts += 1
        self._next_at = now + RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        self._process = self._pump = None

    def _spawn(self, now: float) -> None:
        try:
            arguments, secret = self.command()
        except (ConfigError, OSError) as error:
            self.error = redact(str(error), *self._secrets)
            self._next_at = now + RETRY_SECONDS[-1]
            return
        stdin_r, stdin_w = os.pipe()
        preset, fds = preset_of(secret)
        command = [self.binary.path, "-hide_banner", "-nostats", "-y", "-loglevel", "warning", *self.inputs, *preset]
        parent, nice = os.getpid(), self.nice

        def in_child() -> None:
            die_with(parent, signal.SIGKILL)
            if nice:
                os.nice(nice)

        try:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdin=stdin_r,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=fds,
                env=self.binary.environment(),
                preexec_fn=in_child,
            )
        except BaseException:  # also on Ctrl-C: close our descriptors, then raise
            os.close(stdin_w)
            raise
        finally:
            for fd in (stdin_r, *fds):
                os.close(fd)
        self._said.clear()
        self._pump = Pump(stdin_w, QUEUE_BYTES, drops_oldest=True)
        self.attach(self._pump)
        self._spawned_at = self._written_at = now
        self._written = 0
        self._listener = threading.Thread(target=self._listen, args=[self._process], daemon=True)
        self._listener.start()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        with process.stderr:
            for raw in process.stderr:
                self._said.append(redact(raw.decode(errors="replace").rstrip(), *self._secrets))

    def finish(self) -> None:
        process, pump = self._process, self._pump
        if process is None or pump is None:
            return
        self.detach(pump)
        pump.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


def preset_of(secret: dict[str, str]) -> tuple[list[str], list[int]]:
    """Options that ffmpeg reads from a descriptor, because every user can read its command line (S-05)."""
    if not secret:
        return [], []
    read, write = os.pipe()
    lines = "".join(f"{name}={value.replace(chr(10), '').replace(chr(13), '')}\n" for name, value in secret.items())
    os.write(write, lines.encode())
    os.close(write)
    return ["-fpre", f"/proc/self/fd/{read}"], [read]


class OutputSender(Sender):
    def __init__(self, binary: Binary, fan: Fan, output: Output, secrets: tuple[str, ...]) -> None:
        super().__init__(binary, fan, output.key, output.type, secrets)
        self.output = output

    @property
    def settling_seconds(self) -> float:
        return CONNECT_SECONDS if self.output.type in {"srt", "rtmp"} else super().settling_seconds

    def explain(self, said: Iterable[str]) -> str:
        return refusal_in(said, self.output.type) or super().explain(said)

    def command(self) -> tuple[list[str], dict[str, str]]:
        return arguments_for(self.output, self.binary), dict(self.output.secret)


class FileSender(OutputSender):
    """Writes to the recordings' disk. It stops before they run out of space, and continues when there is more."""

    def __init__(self, binary: Binary, fan: Fan, output: Output, secrets: tuple[str, ...], min_free_bytes: int) -> None:
        super().__init__(binary, fan, output, secrets)
        self.min_free_bytes = min_free_bytes
        self._room_at = 0.0

    def tend(self) -> None:
        now = time.monotonic()
        if self._process is not None and now - self._room_at > ROOM_SECONDS:
            self._room_at = now
            if self._lacking_room():
                self.finish()
        super().tend()

    def command(self) -> tuple[list[str], dict[str, str]]:
        if problem := self._lacking_room():
            raise ConfigError(problem)
        return super().command()

    def _lacking_room(self) -> str:
        folder = next(each for each in Path(self.output.url).parents if each.exists())
        free = free_bytes(folder)
        if free is None or free >= self.min_free_bytes:
            return ""
        return f"only {free // (1024 * 1024)} MB are free: nothing is written until there is more space"


class PreviewSender(Sender):
    """The preview: a small HLS stream and one JPEG a second (P-02)."""

    def __init__(self, binary: Binary, fan: Fan, folder: Path) -> None:
        super().__init__(binary, fan, "preview", "preview", ())
        self.folder = folder

    @property
    def nice(self) -> int:
        return 10

    def command(self) -> tuple[list[str], dict[str, str]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return preview_outputs(self.folder), {}

    def finish(self) -> None:
        super().finish()
        clear_preview(self.folder)
