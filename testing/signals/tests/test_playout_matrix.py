"""What a channel sends, received by foreign receivers that demultiplex and decode with their own code."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.media import free_port
from testing.playing import clips, playout
from testing.signals import receivers
from testing.signals.receivers import Receiver
from testing.signals.senders import Site
from testing.signals.tools import running
from testing.waiting import wait_until

pytestmark = [pytest.mark.signals, pytest.mark.paced, pytest.mark.usefixtures("signal_tools")]

FRAMES = 75
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
