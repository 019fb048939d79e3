"""Network outputs of a channel as a strict receiver sees them, sent with each ffmpeg that may run a channel."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.media import free_port
from testing.playing import playout
from testing.sending import Channel, SrtReceiver, on_air, rate
from testing.transport_stream import Datagram, analyse, from_rtp, picture_times
from testing.waiting import wait_until
from worker.media.ffmpeg import Binary
from worker.playout.outputs import srt_listener
from worker.playout.outputs.srt import SrtSender
from worker.playout.outputs.srt_listener import SrtListener
from worker.playout.outputs.supervised import Tended
from worker.wire.configuration import Output

pytestmark = pytest.mark.paced
SECRET = {"passphrase": "averysecretword"}


@pytest.mark.parametrize(("kind", "constant"), [("udp", "1500k"), ("rtp", "")])
def test_a_datagram_output_satisfies_a_strict_receiver(
    kind: str, constant: str, either_ffmpeg: Binary, tmp_path: Path
) -> None:
    """P-09: datagrams of seven packets, counters, clock, tables, the rate as asked for, the names."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(60)
        url = f"{kind}://127.0.0.1:{receiver.getsockname()[1]}"
        outputs = [{"key": "far", "type": kind, "url": url, "constant_bitrate": constant}]
        names = {"service_name": "Kanal Öst", "service_provider": "House"}
        chosen = {"AIRLOCK_FFMPEG": either_ffmpeg.path}
        with playout(tmp_path, [], outputs=outputs, environment=chosen, **names) as worker:
            got = [_received(receiver)]
            while got[-1].at - got[0].at < 3:
                got.append(_received(receiver))
            state = worker.status()["outputs"][0]["state"]
    assert state == "sending"
    if kind == "rtp":
        got, wrong = from_rtp(got)
        assert wrong == []
    found = analyse(got)
    assert found.problems(is_constant=bool(constant), bits_per_second=1.5e6 if constant else None) == []
    assert (found.service_name, found.provider) == ("Kanal Öst", "House")
    assert set(found.stream_types) == {0x1B, 0x0F}


def _received(receiver: socket.socket) -> Datagram:
    data = receiver.recv(2048)
    return Datagram(time.monotonic(), data)


@contextlib.contextmanager
def listening(binary: Binary, channel: Channel, port: int, secret: dict[str, str] | None = None) -> Iterator[Tended]:
    output = Output(key="far", type="srt", url=f"srt://127.0.0.1:{port}?mode=listener", secret=secret or {})
    listener = SrtListener(binary, channel.fan, output, (), rate())
    with _running(listener):
        wait_until(lambda: listener.state == "waiting", 10, "the output waits")
        yield listener


@contextlib.contextmanager
def _running(output: Tended) -> Iterator[None]:
    output.start()
    try:
        yield
    finally:
        output.end()
        output.join(10)


@pytest.mark.alone
def test_receivers_of_a_listening_output_get_the_live_moment_all_at_once(either_ffmpeg: Binary) -> None:
    """P-09: whoever calls gets what is on air now, also while others are connected; a leaving one disturbs none."""
    port = free_port(socket.SOCK_DGRAM)
    with on_air() as channel, listening(either_ffmpeg, channel, port) as listener:
        wait_until(lambda: (channel.newest or 0) > 14, 20, "the channel has been on air for a while")
        first = SrtReceiver(either_ffmpeg.path, port)
        wait_until(lambda: picture_times(first.stream), 10, "the first receiver has a picture")
        newest = channel.newest
        second = SrtReceiver(either_ffmpeg.path, port)
        try:
            times = wait_until(lambda: picture_times(second.stream), 10, "the second receiver has a picture")
            assert newest is not None
            assert times[0] > newest - 2
            assert listener.status().receivers == 2
            so_far = len(second.stream)
            first.end()
            wait_until(lambda: listener.status().receivers == 1, 10, "the first receiver is gone")
            wait_until(lambda: len(second.stream) > so_far + 188 * 1000, 20, "the second receiver is still served")
            found = analyse(second.stream)
        finally:
            for each in (first, second):
                if each.process.poll() is None:
                    each.end()
    assert found.problems() == []
    assert (listener.restarts, listener.error) == (0, "")


def test_a_receiver_with_a_wrong_passphrase_is_named_at_once(either_ffmpeg: Binary) -> None:
    """P-09: the operator reads why, and the next one with the right passphrase is served."""
    port = free_port(socket.SOCK_DGRAM)
    with on_air() as channel, listening(either_ffmpeg, channel, port, SECRET) as listener:
        wrong = SrtReceiver(either_ffmpeg.path, port, "passphrase=wrongwrongwrong")
        try:
            wait_until(lambda: listener.error, 10, "the refusal is reported")
        finally:
            wrong.end()
        assert listener.error == "a receiver at 127.0.0.1 was refused: wrong passphrase"
        assert listener.state == "waiting"
        right = SrtReceiver(either_ffmpeg.path, port, "passphrase=averysecretword")
        try:
            wait_until(lambda: picture_times(right.stream), 10, "the receiver has a picture")
            assert (listener.state, listener.error) == ("sending", "")
        finally:
            right.end()


def test_a_receiver_too_many_is_refused_in_words(either_ffmpeg: Binary, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-09: it is not left waiting without a picture."""
    monkeypatch.setattr(srt_listener, "MOST_CALLERS", 1)
    port = free_port(socket.SOCK_DGRAM)
    with on_air() as channel, listening(either_ffmpeg, channel, port) as listener:
        first = SrtReceiver(either_ffmpeg.path, port)
        second = None
        try:
            wait_until(lambda: picture_times(first.stream), 10, "the first receiver has a picture")
            second = SrtReceiver(either_ffmpeg.path, port)
            wait_until(lambda: listener.error, 10, "the refusal is reported")
            wait_until(lambda: second.process.poll() is not None, 10, "the second receiver gave up")
        finally:
            first.end()
            if second is not None:
                second.end()
    assert "too many receivers" in listener.error
    assert second.got == b""


@pytest.mark.parametrize(
    ("theirs", "words"), [(["passphrase=wrongwrongwrong"], "wrong SRT passphrase"), ([], "the other has none")]
)
def test_a_calling_output_says_that_its_passphrase_is_refused(theirs: str, words: str, either_ffmpeg: Binary) -> None:
    """P-09: not "input/output error"."""
    port = free_port(socket.SOCK_DGRAM)
    output = Output(key="far", type="srt", url=f"srt://127.0.0.1:{port}", secret=SECRET)
    receiver = SrtReceiver(either_ffmpeg.path, port, *theirs, mode="listener")
    with on_air() as channel:
        sender = SrtSender(either_ffmpeg, channel.fan, output, (), rate())
        try:
            with _running(sender):
                wait_until(lambda: "passphrase" in sender.error, 15, "the refusal is reported")
        finally:
            receiver.end()
    assert words in sender.error
    assert "averysecretword" not in sender.error
