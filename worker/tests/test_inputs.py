"""How a recording opens its source: no secret on the command line, no other protocol, RTP packets in order."""

import os
import random

import pytest

from testing.media import free_port
from worker.capture.inputs import build_capture_input
from worker.capture.rtp import PacketOrder, payload_of
from worker.media.sources import needs_port
from worker.wire.configuration import Source

SECRETS = {
    "srt": "srt://127.0.0.1:9000?passphrase=hidden-words",
    "rtmp": "rtmp://127.0.0.1/live/hidden-words",
    "rtsp": "rtsp://user:hidden-words@127.0.0.1/x",
    "hls": "https://127.0.0.1/x.m3u8?token=hidden-words",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_an_address_with_a_secret_is_not_an_argument(kind: str) -> None:
    """S-05."""
    feed = build_capture_input(Source(kind, SECRETS[kind]), can_look_up_names=True)
    assert "hidden-words" not in " ".join(feed.arguments)
    assert b"hidden-words" in feed.stdin


@pytest.mark.parametrize("kind", ["srt", "rtmp", "rtp", "udp", "rtsp", "hls"])
def test_no_source_may_open_a_file(kind: str) -> None:
    """S-03."""
    scheme = {"hls": "https"}.get(kind, kind)
    feed = build_capture_input(Source(kind, f"{scheme}://127.0.0.1:{free_port()}/x"), can_look_up_names=True)
    protocols = feed.arguments[feed.arguments.index("-protocol_whitelist") + 1].split(",")
    if feed.feeder:  # end it, so that it releases the port
        feed.feeder.stop()
        feed.feeder.run()
        os.close(feed.feeder.descriptor)
    assert not {"file", "concat", "concatf", "subfile", "data", "cache", "fd"} & set(protocols)


def test_an_address_cannot_add_an_entry_to_the_playlist() -> None:
    """S-03."""
    feed = build_capture_input(Source("udp", "udp://127.0.0.1:1?x=1\nudp://127.0.0.1:2"), can_look_up_names=True)
    assert feed.stdin.count(b"\nudp://") == 1


def test_one_reader_at_a_time_can_have_a_port() -> None:
    assert needs_port(Source("udp", "udp://10.0.0.1:5000"))
    assert not needs_port(Source("udp", "udp://239.0.0.1:5000"))
    assert needs_port(Source("srt", "srt://0.0.0.0:9000?mode=listener"))
    assert not needs_port(Source("srt", "srt://10.0.0.1:9000"))


def test_rtp_packets_are_put_in_order_and_duplicates_dropped() -> None:
    """R-14: the numbers begin again at 65536."""
    order, numbers = PacketOrder(), [(65_500 + step) % 65_536 for step in range(200)]
    groups = [numbers[start : start + 8] for start in range(0, len(numbers), 8)]
    shuffled = [each for group in groups for each in random.Random(1).sample(group, len(group))]
    sent = [numbers[0], *shuffled, *shuffled[-3:]]
    found = [int(content) for number in sent for content in order.take(1, number, str(number).encode())]
    assert found == numbers


def test_a_lost_rtp_packet_and_a_new_sender_hold_nothing_back() -> None:
    """R-15."""
    order = PacketOrder()
    found = [int(content) for number in (1, 2, *range(4, 60)) for content in order.take(1, number, b"%d" % number)]
    assert found == [1, 2, *range(4, 60)]
    assert list(order.take(2, 7, b"new")) == [b"new"]
    assert list(order.take(2, 40_000, b"started again")) == [b"started again"]


def test_extensions_and_padding_of_an_rtp_packet_are_left_out() -> None:
    head = bytes([0x80 | 0x20 | 0x10 | 1, 33, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9])
    packet = head + b"CSRC" + b"\xbe\xde\x00\x01EXTN" + b"content" + b"\x00\x00\x03"
    assert payload_of(packet) == (9, 5, b"content")
    assert payload_of(b"\x80\xc8" + bytes(20)) is None  # a report of the sender (RTCP)
