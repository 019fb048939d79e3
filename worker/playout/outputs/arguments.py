"""The ffmpeg arguments for each type of output."""

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from worker.media.ffmpeg import Binary
from worker.media.sources import with_numeric_host
from worker.playout.loaded_config import ChannelSetup
from worker.playout.outputs.shaping import DATAGRAM, Rate, rate_for
from worker.process.config_line import ConfigError
from worker.wire.configuration import Output, bits_per_second

COPY = ["-map", "0:v:0", "-map", "0:a:0", "-c", "copy"]
STAMPS = ["-muxdelay", "0", "-muxpreload", "0"]
# With `-flush_packets 0`, ffmpeg fills each SRT packet, however the pipe cuts our datagrams.
PASSED_ON = ["-f", "data", "-probesize", "32", "-analyzeduration", "0"]
PASSED_ON += ["-raw_packet_size", str(DATAGRAM), "-i", "pipe:0"]
SEGMENT = ["-hls_time", "2", "-hls_list_size", "10", "-hls_flags"]
SEGMENT += ["delete_segments+append_list+omit_endlist+program_date_time"]


def arguments_for(output: Output, binary: Binary) -> list[str]:
    """How to write the stream, and where to send it."""
    options = [part for name, value in sorted(output.options.items()) for part in (f"-{name}", value)]
    if output.type == "rtmp":
        url = output.url if not binary.is_static else with_numeric_host(output.url)
        return [*COPY, "-bsf:a", "aac_adtstoasc", *options, "-f", "flv", url]
    path = Path(output.url)
    if output.type == "hls":
        path.parent.mkdir(parents=True, exist_ok=True)
        return [*COPY, "-f", "hls", *SEGMENT, str(path)]
    if output.type == "file":
        path.parent.mkdir(parents=True, exist_ok=True)
        return [*COPY, *STAMPS, "-f", "mpegts", str(unused(path))]
    raise ConfigError(f"an output of type {output.type} cannot be sent")


def srt_arguments(output: Output, url: str, bits: float) -> list[str]:
    """Our datagrams as they are: ffmpeg neither reads nor changes the stream (see PASSED_ON)."""
    given = {**srt_options(url, bits), **output.options}
    options = [part for name, value in sorted(given.items()) for part in (f"-{name}", value)]
    return ["-map", "0:0", "-c", "copy", "-flush_packets", "0", *options, "-f", "data", url]


def stream_rate(output: Output, config: ChannelSetup) -> Rate:
    """How fast the transport stream of a network output leaves."""
    constant = bits_per_second(output.constant_bitrate) if output.constant_bitrate else None
    return rate_for(bits_per_second(config.video_bitrate), bits_per_second(config.audio_bitrate), constant)


def srt_options(url: str, bits: float) -> dict[str, str]:
    """Make SRT notice a lost receiver within about a second; by itself it takes five.

    The buffer is small (enough for the latency and about a second more), and a sender that cannot write for a second
    gives up.
    """
    latency = float(dict(parse_qsl(urlsplit(url).query)).get("latency", "120000")) / 1e6
    size = bits / 8 * (2 * latency + 0.8)
    return {
        "pkt_size": str(DATAGRAM),
        "sndbuf": str(max(96 * 1024, int(size))),
        "snddropdelay": "-1",
        "timeout": "1000000",
        "connect_timeout": "1500",
    }


def unused(path: Path) -> Path:
    """An unused file name, so that the file of an earlier media worker is kept."""
    candidate, number = path, 1
    while candidate.exists() and candidate.stat().st_size:
        number += 1
        candidate = path.with_stem(f"{path.stem}-{number:03d}")
    return candidate
