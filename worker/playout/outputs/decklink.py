"""DeckLink cards: each gets the raw picture through its own process and thread."""

import subprocess
import time

from worker.media.ffmpeg import Binary
from worker.media.sources import nth_decklink
from worker.playout.outputs.encoder import RawProcess
from worker.playout.outputs.supervised import Tended
from worker.playout.pipes import Data
from worker.process.config_line import ConfigError
from worker.wire.configuration import Output
from worker.wire.picture import Format

RETRY_SECONDS = 1.0
SETTLED_SECONDS = 10.0


def list_sinks(binary: Binary) -> str:
    """ffmpeg's list of DeckLink outputs."""
    command = [binary.path, "-hide_banner", "-sinks", "decklink"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15, env=binary.environment(), check=False)
    return done.stdout + done.stderr


def decklink_outputs(output: Output, binary: Binary) -> list[str]:
    """`url` is the number of the device. Raises ConfigError when there is no such device."""
    try:
        name = nth_decklink(list_sinks(binary), output.url)
    except subprocess.SubprocessError as error:
        raise OSError("ffmpeg cannot list the DeckLink devices") from error
    picture = ["-map", "0:v:0", "-map", "1:a:0", "-c:v", "wrapped_avframe", "-pix_fmt", "uyvy422"]
    return [*picture, "-c:a", "pcm_s16le", "-f", "decklink", name]


class Card(Tended):
    def __init__(self, binary: Binary, picture: Format, output: Output) -> None:
        super().__init__(output.key, "decklink")
        self.binary, self.picture, self.output = binary, picture, output
        self._process: RawProcess | None = None
        self._next_at = 0.0

    def put(self, frame: Data, sound: Data) -> None:
        """The pacer calls this; it never waits. A card that cannot keep up loses frames."""
        process = self._process
        if process is not None:
            process.put(frame, sound)

    @property
    def state(self) -> str:
        process = self._process
        if process is None or not process.is_running:
            return "waiting" if self.error else "starting"
        return "sending" if process.frames_out else "starting"

    def tend(self) -> None:
        now, process = time.monotonic(), self._process
        if process is not None and process.is_running and not process.is_stuck:
            if now - process.spawned_at > SETTLED_SECONDS:
                self.error = ""
            return
        if process is not None:
            self.error = process.words() if not process.is_running else "the card accepted no more frames"
            self._process = None
            process.end(0.0)
            self.restarts += 1
            self._next_at = now + RETRY_SECONDS
        if now >= self._next_at:
            self._next_at = now + RETRY_SECONDS
            try:
                arguments = decklink_outputs(self.output, self.binary)
            except (OSError, ConfigError) as error:
                self.error = str(error)
                return
            self._process = RawProcess(self.binary, self.picture, arguments, has_stream=False)

    def finish(self) -> None:
        if self._process is not None:
            self._process.end(1.0)
