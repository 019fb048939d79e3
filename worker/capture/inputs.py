"""How a recording reads its source. No argument contains a secret (see worker.media.sources).

A transport stream (UDP, SRT, RTP) and an RTMP stream are read by their own demuxer, not through ffmpeg's list of files:
only so does ffmpeg follow a jump or a restart of the source's clock, and sees programmes. The address is passed as a
playlist of one entry through standard input, for ffmpeg's `hls` protocol, which hands on the bytes as they come.
An RTP stream is unpacked here: ffmpeg 7.0 ignores a sender that starts again.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from worker.capture.rtp import RtpReader
from worker.media.sources import DROP_CONTROL, PROTOCOLS, Input, build_input, check_scheme, is_listener, numeric
from worker.wire.configuration import Source

# ffmpeg waits 5 s for further programmes unless it is told not to.
TRANSPORT_STREAM = ["-f", "mpegts", "-scan_all_pmts", "0"]
DEMUXERS = {"udp": TRANSPORT_STREAM, "srt": TRANSPORT_STREAM, "rtmp": ["-f", "live_flv"]}
PLAYLIST = "hls+pipe:0"
READ_BY = "async"  # ffmpeg 7.0 ignores SIGTERM if the name of its input begins with "pipe:"
ENTRY_LIMIT = 1000  # ffmpeg reads no longer line of a playlist


def build_capture_input(
    source: Source, *, can_look_up_names: bool, device_name: Callable[[str], str] = lambda index: index
) -> Input:
    """Raises ConfigError, and OSError if a port cannot be opened."""
    if source.type == "rtp":
        check_scheme(source)
        reader = RtpReader(numeric(source.url, can_look_up_names=False))
        arguments = ["-protocol_whitelist", "hls,pipe", *TRANSPORT_STREAM, "-i", PLAYLIST]
        return Input(arguments, playlist(f"pipe:{reader.descriptor}"), is_raw=False, feeder=reader)
    if source.type == "hls" and not _has_secrets(source.url):
        check_scheme(source)
        url = numeric(source.url, can_look_up_names=can_look_up_names)
        options = [part for name, value in sorted(source.options.items()) for part in (f"-{name}", value)]
        arguments = ["-protocol_whitelist", PROTOCOLS["hls"], *options, "-f", "hls", "-i", url]
        return Input(arguments, b"", is_raw=False)
    demuxer = DEMUXERS.get(source.type)
    is_rtmp_listener = source.type == "rtmp" and is_listener(source)  # takes an option, which a playlist cannot have
    if demuxer is None or is_rtmp_listener or len(source.url) > ENTRY_LIMIT:
        return build_input(source, can_look_up_names=can_look_up_names, device_name=device_name, wrapper=READ_BY)
    check_scheme(source)
    url = numeric(source.url, can_look_up_names=can_look_up_names).translate(DROP_CONTROL)
    whitelist = f"hls,pipe,{PROTOCOLS[source.type]}"
    arguments = ["-protocol_whitelist", whitelist, *demuxer, "-i", PLAYLIST]
    return Input(arguments, playlist(url), is_raw=False)


def playlist(url: str) -> bytes:
    """A playlist of one entry."""
    return "\n".join(["#EXTM3U", "#EXT-X-TARGETDURATION:1", "#EXTINF:1,", url, "#EXT-X-ENDLIST", ""]).encode()


def _has_secrets(url: str) -> bool:
    """Any parameter may be a token."""
    parts = urlsplit(url)
    return bool(parts.query or parts.username or parts.password)
