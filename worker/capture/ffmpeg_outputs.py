"""The ffmpeg arguments for encoding a recorded source and writing it to its outputs (ffmpeg's tee)."""

from pathlib import Path

from worker.capture.splitting import escape_tee
from worker.wire.configuration import CaptureConfig

COPY = ["-map", "0:v?", "-map", "0:a?", "-c", "copy"]


def encoding(config: CaptureConfig, *, is_split: bool) -> list[str]:
    """For an unencoded source: a card, or the test pattern (its sound is a separate input)."""
    arguments = ["-map", "0:v:0?", "-map", "1:a:0?" if config.source.type == "test" else "0:a:0?"]
    arguments += ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "50"]
    arguments += ["-b:v", config.video_bitrate, "-maxrate", config.video_bitrate]
    arguments += ["-bufsize", config.video_bitrate, "-c:a", "aac", "-b:a", "192k", "-flags", "+global_header"]
    if is_split:  # a file can begin only with a key frame, so make one every second
        arguments += ["-force_key_frames", "expr:gte(t,n_forced)"]
    return arguments


def file_output(path: Path, container: str) -> str:
    """A file that can be read while it grows."""
    if container == "fmp4":
        options = "f=mp4:movflags=frag_keyframe+empty_moov+default_base_moof:flush_packets=1"
    else:
        options = "f=mpegts:flush_packets=1"
    return f"[{options}]{escape_tee(str(path))}"


def preview_output(port: int) -> str:
    """A failing preview does not affect the recording."""
    return f"[f=mpegts:onfail=ignore]udp\\://127.0.0.1\\:{port}?pkt_size=1316"


def tee(output: str, preview_port: int | None) -> list[str]:
    """Write the recording, and send the preview if there is one."""
    outputs = [output] if preview_port is None else [output, preview_output(preview_port)]
    return ["-f", "tee", "|".join(outputs)]
