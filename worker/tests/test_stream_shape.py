"""The transport stream that leaves a channel, and the analyser that judges it."""

from itertools import pairwise

import pytest

from testing.sending import encoded, rate
from testing.transport_stream import Datagram, analyse, from_rtp, picture_times
from worker.playout.outputs.shaping import Rate, Shaper

STEP_SECONDS = 0.01


@pytest.fixture(scope="module")
def stream() -> bytes:
    return encoded(6.0)


def shaped(stream: bytes, given: Rate, shaper: Shaper | None = None, begins_at: float = 0.0) -> list[Datagram]:
    """Give the shaper each frame at its time; the clock is ours."""
    shaper = shaper or Shaper(given)
    frames = _by_frame(stream)
    found: list[Datagram] = []
    now = begins_at
    for number, frame in enumerate(frames):
        shaper.put(frame)
        while now < begins_at + (number + 1) * 0.04:
            now += STEP_SECONDS
            found += [Datagram(now, data) for data, _ in shaper.due(now)]
    return found


def _by_frame(stream: bytes) -> list[bytes]:
    """Cut before each frame."""
    frames = [b""]
    for at in range(0, len(stream), 188):
        packet = stream[at : at + 188]
        if packet[1:3] == b"\x41\x00":
            frames.append(b"")
        frames[-1] += packet
    return [each for each in frames if each]


def test_the_encoders_own_stream_is_not_fit_for_a_receiver(stream: bytes) -> None:
    """P-09: what the analyser is for."""
    found = analyse([Datagram(0.0, stream[at : at + 1472]) for at in range(0, len(stream), 1472)])
    words = " ".join(found.problems(is_constant=True))
    assert "datagrams are not seven packets" in words
    assert "PCR: " in words
    assert "PCR jitter: " in words


def test_the_analyser_finds_lost_packets_and_lost_sync(stream: bytes) -> None:
    """P-09: lost packets show in the counters."""
    assert analyse(stream).continuity_errors == ()
    assert analyse(stream[: 188 * 40] + stream[188 * 47 :]).continuity_errors
    assert analyse(stream[: 188 * 40] + b"\0" + stream[188 * 40 + 1 :]).sync_losses == 1


@pytest.mark.parametrize("constant", [None, 1_500_000.0])
def test_a_shaped_stream_satisfies_a_strict_receiver(stream: bytes, constant: float | None) -> None:
    """P-09: seven packets in a datagram, clock and tables in time, the rate as asked for, and the names."""
    found = analyse(shaped(stream, rate(constant)))
    assert found.problems(is_constant=constant is not None, bits_per_second=constant) == []
    assert found.datagrams > 100
    assert (found.service_name, found.provider) == ("Main", "House")


@pytest.mark.parametrize("constant", [None, 1_500_000.0])
def test_every_frame_leaves_before_it_is_due(stream: bytes, constant: float | None) -> None:
    """P-09: no frame is lost, and none arrives after its time by the stream's clock."""
    sent = b"".join(each.data for each in shaped(stream, rate(constant)))
    times = picture_times(sent)
    assert len(times) > 100
    assert max(b - a for a, b in pairwise(sorted(times))) < 0.041
    clock = 0.0
    for at in range(0, len(sent), 188):
        packet = sent[at : at + 188]
        if packet[3] & 0x20 and packet[4] and packet[5] & 0x10:
            base = int.from_bytes(packet[6:12], "big")
            clock = (base >> 15) / 90_000
        for due in picture_times(packet):
            assert due > clock


def test_the_counters_continue_when_the_encoder_is_replaced(stream: bytes) -> None:
    """P-09: the new encoder's counters begin at zero; the receiver does not notice."""
    shaper = Shaper(rate(1_500_000.0))
    first = shaped(stream[: len(stream) // 376 * 188], shaper.rate, shaper)
    then = shaped(stream[len(stream) // 376 * 188 :], shaper.rate, shaper, begins_at=first[-1].at)
    found = analyse([*first, *then])
    assert found.continuity_errors == ()
    assert found.problems(is_constant=True, bits_per_second=1_500_000.0) == []


def test_a_receiver_that_takes_nothing_costs_old_pictures_only(stream: bytes) -> None:
    """P-09: what waited too long is dropped; the stream continues with a key frame."""
    shaper = Shaper(rate())
    for _ in range(8):
        shaper.put(stream)
    assert shaper.dropped
    assert analyse([Datagram(0.0, data) for data, _ in [*shaper.due(1.0), *shaper.due(1.5)]]).continuity_errors == ()


def test_rtp_headers_are_checked() -> None:
    """P-09: sequence numbers continue, also after the largest."""
    good = [Datagram(0.0, bytes([0x80, 33]) + (n % 65536).to_bytes(2, "big") + bytes(8 + 1316)) for n in (65535, 65536)]
    assert from_rtp(good)[1] == []
    assert from_rtp([good[0], good[0]])[1]
