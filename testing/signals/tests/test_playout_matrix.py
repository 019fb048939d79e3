"""What a channel sends, received by foreign receivers that demultiplex and decode with their own code."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.claps import claps_in, make_clap
from testing.media import free_port
from testing.playing import asset, clips, playout
from testing.signals import receivers
from testing.signals.receivers import KeepingReceiver, Receiver
from testing.signals.senders import Site
from testing.signals.tools import running
from testing.waiting import wait_until

pytestmark = [pytest.mark.signals, pytest.mark.paced, pytest.mark.usefixtures("signal_tools")]

FRAMES = 75
CLAP_TICKS = 14 * 25
night = pytest.mark.night
RECEIVERS = [
    receivers.gst_udp,
    receivers.gst_srt_listener,
    pytest.param(receivers.gst_rtp, marks=night),
    pytest.param(receivers.gst_srt_caller, marks=night),
    pytest.param(receivers.srt_live_transmit, marks=night),
    receivers.gst_rtmp,
    pytest.param(receivers.gst_hls, marks=night),
    pytest.param(receivers.mpv_udp, marks=night),
]


@pytest.mark.parametrize("make", RECEIVERS)
def test_a_foreign_receiver_decodes_the_channel_without_a_complaint(
    make: Callable[[Path, int], Receiver], tmp_path: Path
) -> None:
    """P-09: three clips, two joins; whatever the receiver checks (counters, time stamps, codec) is in order."""
    port = free_port(socket.SOCK_DGRAM)
    receiver = make(tmp_path, port)
    outputs = [{"key": "far", **receiver.output}]
    with contextlib.ExitStack() as stack:
        if receiver.is_first:
            stack.enter_context(running(receiver.programs))
        worker = stack.enter_context(playout(tmp_path, clips(tmp_path, 3, 3.0), outputs=outputs, loop=True))
        worker.wait_for(state="playing", ticks=50)
        if not receiver.is_first:
            site = Site(tmp_path, port=port)
            stack.enter_context(site.served())
            stack.enter_context(running(receiver.programs))
        wait_until(
            lambda: receiver.frames() >= FRAMES, 40, f"the receiver decodes: {receiver.programs[-1].text()[-800:]}"
        )
        # What it complained about before its first picture: it joined a running stream.
        known = len(receiver.complaints)
        seen = receiver.frames()
        wait_until(lambda: receiver.frames() >= min(seen + FRAMES, 100), 40, "it goes on")
        assert receiver.complaints[known:] == []
        assert worker.status()["outputs"][0]["restarts"] == 0


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("udp", "udpsrc address=127.0.0.1 port={port}"),
        pytest.param("srt", "srtsrc uri=srt://127.0.0.1:{port}?mode=listener", marks=night),
    ],
)
def test_a_clap_reaches_a_foreign_receiver_in_sync(kind: str, source: str, tmp_path: Path) -> None:
    """P-09: what the receiver shows and plays is at most 20 ms further apart than if it reads the clip itself.

    Its AAC decoder (FAAD) plays everything one frame too early, 21 ms, the clip as well.
    """
    port = free_port(socket.SOCK_DGRAM)
    make_clap(tmp_path / "clap.ts")
    own = receivers.gst_keeping(tmp_path, f"filesrc location={tmp_path / 'clap.ts'}")
    with running([own.program]):
        wait_until(lambda: own.program.process and own.program.process.poll() == 0, 30, "it has read the clip")
    [own_apart] = apart_ms(own)
    far = {"key": "far", "type": kind, "url": f"{kind}://127.0.0.1:{port}"}
    items = [asset("clap", "clap.ts", seconds=2.0)]
    receiver = receivers.gst_keeping(tmp_path, source.format(port=port))
    with running([receiver.program]), playout(tmp_path, items, outputs=[far], loop=True) as worker:
        worker.wait_for(ticks=CLAP_TICKS)
    apart = apart_ms(receiver)
    print(f"sound after picture: {', '.join(f'{each:+.0f}' for each in apart)} ms, in the clip {own_apart:+.0f} ms")
    assert len(apart) >= 4, receiver.program.text()[-800:]
    assert max(abs(each - own_apart) for each in apart) < 20


def apart_ms(receiver: KeepingReceiver) -> list[float]:
    """How long after the picture each clap is heard. A receiver joins a running stream and is ended in the middle."""
    flashes, beeps = claps_in(receiver.kept)
    pairs = [(seen, min(beeps, key=lambda heard: abs(heard - seen), default=seen + 9)) for seen in flashes]
    return [1000 * (heard - seen) for seen, heard in pairs if abs(heard - seen) < 1.0]
