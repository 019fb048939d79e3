"""The output types of a channel: checks addresses and separates their secrets (S-03, S-04, S-05)."""

from typing import Any
from urllib.parse import parse_qsl

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models

from scheduling.recorders import sources
from scheduling.recorders.sources import Parsed, parse_source, wire_source
from station.folders import PLAYOUT_FOLDER, safe_part
from worker.wire.configuration import Output, Source, bits_per_second, least_constant_bitrate


class OutputType(models.TextChoices):
    SRT = "srt", "SRT"
    RTMP = "rtmp", "RTMP"
    UDP = "udp", "UDP (MPEG-TS)"
    RTP = "rtp", "RTP (MPEG-TS)"
    HLS = "hls", "HLS in the media folder"
    FILE = "file", "file in the media folder"
    DECKLINK = "decklink", "DeckLink"


EXAMPLES = {
    OutputType.SRT: "srt://receiver.example:9000 or, to wait for receivers, srt://0.0.0.0:9000?mode=listener "
    "(up to eight at once)",
    OutputType.RTMP: "rtmp://server.example/live/KEY",
    OutputType.UDP: "udp://239.1.1.1:5000",
    OutputType.RTP: "rtp://239.1.1.1:5004",
    OutputType.HLS: "a name, like main",
    OutputType.FILE: "a name, like main",
    OutputType.DECKLINK: "the number of the device, from 0",
}
BITRATE = RegexValidator(r"^[1-9][0-9]{0,4}[kM]$", "Like 800k or 8M.")
STREAMS = (OutputType.SRT, OutputType.UDP, OutputType.RTP)
LOCAL = (OutputType.HLS, OutputType.FILE)
ONLY_ONE = ("hls", "file", "decklink")
TWICE = "The channel already has this output"


def parse_output(output_type: str, text: str) -> Parsed:
    """Check and split an address. Raises ValidationError with a sentence for the form field."""
    if output_type in LOCAL:
        name = text.strip()
        if not name or name != safe_part(name) or "/" in name:
            raise ValidationError("Give a plain name: letters, digits, spaces and - . , ( ) + = @ _")
        return Parsed(name)
    parsed = parse_source(output_type, text, EXAMPLES)
    if output_type == OutputType.RTMP and "listen=1" in parsed.address:
        raise ValidationError("An RTMP output connects to a server; it cannot listen.")
    return parsed


def parse_monitored(text: str) -> Parsed | None:
    """Check the address at which an output can be received; None if there is none. Raises ValidationError."""
    text = text.strip()
    if not text:
        return None
    if not (kind := source_type_of(text)):
        raise ValidationError("The address begins with udp://, rtp://, srt://, rtmp://, rtsp://, http:// or https://.")
    parsed = parse_source(kind, text)
    if any(word in parsed.address for word in ("mode=listener", "listen=1")):
        raise ValidationError("Give an address to receive from. The monitor cannot wait for a caller.")
    return parsed


def source_type_of(address: str) -> str:
    """The type of a source by the beginning of its address; empty if none fits."""
    scheme = address.partition("://")[0]
    return next((str(kind) for kind, schemes in sources.SCHEMES.items() if scheme in schemes), "")


def monitored_source(address: str, secrets: dict[str, Any]) -> Source | None:
    """What the media worker receives to check the output; None if the output is not monitored."""
    kind = source_type_of(address)
    return wire_source(kind, address, secrets, "") if kind else None


def check_constant_bitrate(output_type: str, wanted: str, video_bitrate: str) -> None:
    """Raises ValidationError if the stream cannot have this constant bitrate."""
    if output_type not in STREAMS:
        raise ValidationError({"constant_bitrate": "Only SRT, UDP and RTP outputs have a constant bitrate."})
    least = least_constant_bitrate(video_bitrate)
    if bits_per_second(wanted) < least:
        text = f"Picture, sound and tables need at least {-(-least // 1000):.0f}k."
        raise ValidationError({"constant_bitrate": text})


def output_config(
    key: str, output_type: str, address: str, secrets: dict[str, Any], channel_id: int, constant_bitrate: str = ""
) -> Output:
    """The output's configuration for the media worker. Secrets become ffmpeg options, in the sealed part only."""
    secret: dict[str, str] = {}
    if secrets.get("passphrase"):
        secret["passphrase"] = secrets["passphrase"]
    query = dict(parse_qsl(secrets.get("query", "")))
    if output_type == OutputType.SRT and query.get("streamid"):
        secret["streamid"] = query["streamid"]
    if output_type == OutputType.RTMP:
        key_of_stream = secrets.get("stream_key", "")
        secret["rtmp_playpath"] = f"{key_of_stream}?{secrets['query']}" if secrets.get("query") else key_of_stream
    url = address
    if output_type == OutputType.HLS:
        url = f"{PLAYOUT_FOLDER}/channel-{channel_id}/hls-{safe_part(address)}/index.m3u8"
    elif output_type == OutputType.FILE:
        url = f"{PLAYOUT_FOLDER}/channel-{channel_id}/{safe_part(address)}.ts"
    kept = {name: word for name, word in secret.items() if word}
    return Output(key=key, type=str(output_type), url=url, secret=kept, constant_bitrate=constant_bitrate)


def port_needed(output_type: str, address: str) -> tuple[str, int] | None:
    """(kind, number) of the card or port that only one workload may use on its node, or None.

    The same as for a recorder, but only these two types: an output never listens on UDP, RTP or RTMP.
    """
    return sources.port_needed(output_type, address) if output_type in {OutputType.DECKLINK, OutputType.SRT} else None
