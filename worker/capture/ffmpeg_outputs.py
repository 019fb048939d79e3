"""The ffmpeg arguments for encoding a recorded source and writing it to its outputs (ffmpeg's tee)."""

from worker.capture.journal import Journal
from worker.capture.splitting import INTERLEAVE, escape_tee, pattern_of, segment_output
from worker.capture.tracks import kinds_kept
from worker.media.ffmpeg import Binary
from worker.wire.configuration import CaptureConfig, ProbeConfig
from worker.wire.parts_and_gaps import Part

NEVER_SECONDS = "1000000000"
NOWHERE = "/dev/null"


def copying(config: CaptureConfig | ProbeConfig, binary: Binary) -> list[str]:
    """All tracks that the container can hold; of one programme, if it is chosen."""
    chosen = f"p:{config.programme}:" if config.programme else ""
    kinds = kinds_kept(config.source, config.container, binary)
    return [*(part for kind in kinds for part in ("-map", f"0:{chosen}{kind}?")), "-c", "copy"]


def encoding(config: CaptureConfig, *, is_split: bool) -> list[str]:
    """For an unencoded source: a card, or the test pattern (its sound is a separate input)."""
    arguments = ["-map", "0:v:0?", "-map", "1:a:0?" if config.source.type == "test" else "0:a:0?"]
    arguments += ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "50"]
    arguments += ["-b:v", config.video_bitrate, "-maxrate", config.video_bitrate]
    arguments += ["-bufsize", config.video_bitrate, "-c:a", "aac", "-b:a", "192k", "-flags", "+global_header"]
    if is_split:  # a file can begin only with a key frame, so make one every second
        arguments += ["-force_key_frames", "expr:gte(t,n_forced)"]
    return arguments


def file_output(journal: Journal, part: Part, container: str) -> str:
    """A file that can be read while it grows.

    The tee passes the codec's tag of a transport stream on, which MP4 refuses; the segment muxer chooses the right one.
    """
    if container == "fmp4":
        return segment_output(pattern_of(journal, part), part.number, container, {"segment_time": NEVER_SECONDS})
    return f"[f=mpegts:flush_packets=1:{INTERLEAVE}]{escape_tee(str(journal.folder / part.file))}"


def null_output(container: str, descriptor: int) -> str:
    """The same muxer, whose file is thrown away. `descriptor` is /dev/null, opened for ffmpeg."""
    if container == "fmp4":
        return segment_output("/dev/fd/%d", descriptor, container, {"segment_time": NEVER_SECONDS})
    return f"[f=mpegts]{NOWHERE}"


def preview_output(port: int) -> str:
    """A failing preview does not affect the recording."""
    return f"[f=mpegts:onfail=ignore:select=v,a:{INTERLEAVE}]udp\\://127.0.0.1\\:{port}?pkt_size=1316"


def tee(output: str, preview_port: int | None) -> list[str]:
    """Write the recording, and send the preview if there is one."""
    outputs = [output] if preview_port is None else [output, preview_output(preview_port)]
    return ["-max_interleave_delta", INTERLEAVE.partition("=")[2], "-f", "tee", "|".join(outputs)]
