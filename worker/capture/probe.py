"""The `probe` program: reads a source for a few seconds like `capture` and reports whether it sends a picture."""

import subprocess
import time

from worker.capture.ffmpeg_outputs import NOWHERE, copying, null_output, tee
from worker.capture.inputs import build_capture_input
from worker.capture.tracks import Track, read_tracks, unrecorded
from worker.media.ffmpeg import REPORT_SECONDS, Ffmpeg, find_binary, list_decklinks
from worker.media.refusals import refusal_in
from worker.media.sources import nth_decklink
from worker.process import exits
from worker.process.config_line import ConfigError, read_line
from worker.process.redaction import redact
from worker.wire import codec
from worker.wire.configuration import ProbeAnswer, ProbeConfig

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
    print(codec.dumps(answer_of(config)), flush=True)
    return exits.DONE


def answer_of(config: ProbeConfig) -> ProbeAnswer:
    tracks: list[Track] = []
    trouble = redact(look(config, tracks), *config.secrets)
    return ProbeAnswer(
        ok=not trouble,
        error=trouble,
        tracks=tuple(str(track) for track in tracks),
        unrecorded=tuple(unrecorded(tracks, config, binary)) if (binary := find_binary()) else (),
        programmes=tuple(sorted({track.programme for track in tracks if track.programme is not None})),
    )


def look(config: ProbeConfig, tracks: list[Track]) -> str:
    """Empty if frames arrived, else the reason why not. The tracks of the source are added to `tracks`."""
    binary = find_binary()
    if binary is None:
        return "no ffmpeg on this machine"
    try:
        feed = build_capture_input(
            config.source,
            can_look_up_names=not binary.is_static,
            device_name=lambda index: nth_decklink(list_decklinks(binary), index),
        )
    except (ConfigError, OSError, subprocess.SubprocessError) as error:
        return str(error)
    arguments = ["-loglevel", "info", "-progress", "pipe:1", "-stats_period", str(REPORT_SECONDS), *feed.arguments]
    with open(NOWHERE, "wb") as nowhere:
        if feed.is_raw:
            arguments += ["-map", "0:v?", "-map", "0:a?", "-f", "null", "-"]
        else:
            arguments += copying(config, binary)
            arguments += tee(null_output(config.container, nowhere.fileno()), None)
        ffmpeg = Ffmpeg(
            binary,
            arguments,
            feed.stdin,
            config.secrets,
            is_copy=not feed.is_raw,
            pass_fds=(nowhere.fileno(),),
            feeder=feed.feeder,
        )
    trouble = _watch(ffmpeg, config.source.type, config.seconds)
    tracks += read_tracks(ffmpeg.progress.described)
    if trouble and config.programme and tracks and all(track.programme != config.programme for track in tracks):
        found = ", ".join(str(number) for number in sorted({track.programme or 0 for track in tracks}))
        return f"the source has no programme {config.programme}, but {found}"
    return trouble


def _watch(ffmpeg: Ffmpeg, kind: str, seconds: float) -> str:
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
    refusal = refusal_in(ffmpeg.progress.lines, kind)
    return refusal or ffmpeg.last_words() or f"no picture within {seconds:.0f} s"
