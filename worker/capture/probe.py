"""The `probe` program: reads a source for a few seconds like `capture` and reports whether it sends a picture."""

import subprocess
import time

from worker.media.ffmpeg import Ffmpeg, find_binary, list_decklinks
from worker.media.refusals import refusal_in
from worker.media.sources import build_input, nth_decklink
from worker.process import exits
from worker.process.config_line import ConfigError, read_line
from worker.process.redaction import redact
from worker.wire import codec
from worker.wire.configuration import ProbeAnswer, ProbeConfig, Source

LOOK_SECONDS = 0.1
# A card without a signal sends bars at once and reports the missing signal a moment later.
SURE_SECONDS = 0.3


def run() -> int:
    """Print one line: a ProbeAnswer."""
    line = read_line()
    if line is None:
        return exits.NO_CONFIG
    try:
        config = codec.loads(ProbeConfig, line)
    except codec.WireError as error:
        print(f"bad config: {error}", flush=True)
        return exits.BAD_CONFIG
    trouble = redact(look(config.source, config.secrets, config.seconds), *config.secrets)
    print(codec.dumps(ProbeAnswer(ok=not trouble, error=trouble)), flush=True)
    return exits.DONE


def look(source: Source, secrets: tuple[str, ...], seconds: float) -> str:
    """Empty if frames arrived, else the reason why not."""
    binary = find_binary()
    if binary is None:
        return "no ffmpeg on this machine"
    try:
        feed = build_input(
            source,
            can_look_up_names=not binary.is_static,
            device_name=lambda index: nth_decklink(list_decklinks(binary), index),
        )
    except (ConfigError, OSError, subprocess.SubprocessError) as error:
        return str(error)
    arguments = ["-loglevel", "info", "-progress", "pipe:1", "-stats_period", "0.25", *feed.arguments]
    arguments += ["-map", "0:v?", "-map", "0:a?", *([] if feed.is_raw else ["-c", "copy"]), "-f", "null", "-"]
    ffmpeg = Ffmpeg(binary, arguments, feed.stdin, secrets, is_copy=not feed.is_raw)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            if ffmpeg.has_content and ffmpeg.progress.out_seconds > SURE_SECONDS and not ffmpeg.progress.card_lost_at:
                return ""
            if not ffmpeg.is_running:
                break
            time.sleep(LOOK_SECONDS)
    finally:
        ffmpeg.end(grace_seconds=1)
    if ffmpeg.progress.card_lost_at is not None:
        return "the card has no signal"
    if ffmpeg.has_content:
        return ""
    refusal = refusal_in(ffmpeg.progress.lines, source.type)
    return refusal or ffmpeg.last_words() or f"no picture within {seconds:.0f} s"
