"""A channel receives one of its own outputs and notices what its viewers would: black, freeze, silence, loss."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.media import free_port
from testing.playing import asset, make_clip, playout
from testing.processes import children_of, command_of
from testing.waiting import wait_until

pytestmark = pytest.mark.paced

KINDS = ("lost", "black", "frozen", "silent")
SECRET = "the-secret-of-the-monitor"


class Relay:
    """The network between the channel and its receiver: passes datagrams on while it is open."""

    def __init__(self) -> None:
        self.port, self.to_port = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_DGRAM)
        self.is_open, self.is_over = True, False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._pass_on)
        thread.start()
        try:
            yield
        finally:
            self.is_over = True
            thread.join()

    def _pass_on(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
            near.bind(("127.0.0.1", self.port))
            near.settimeout(0.2)
            while not self.is_over:
                with contextlib.suppress(TimeoutError):
                    data = near.recv(2048)
                    if self.is_open:
                        near.sendto(data, ("127.0.0.1", self.to_port))


def test_black_freeze_and_silence_are_measured_at_the_receiver(tmp_path: Path) -> None:
    """P-09: each begins and ends with the clip that has it; the loudness of a tone is right."""
    make_clip(tmp_path / "good.mp4", "testsrc2=size=320x180:rate=25", 40, "-ac", "2")
    make_clip(tmp_path / "black.mp4", "color=black:size=320x180:rate=25", 60)
    make_clip(tmp_path / "still.mp4", "smptebars=size=320x180:rate=25", 60, sound="anullsrc=channel_layout=stereo")
    names = ("good", "black", "still")
    items = [asset(name, f"{name}.mp4", seconds=40.0 if name == "good" else 60.0) for name in names]
    relay = Relay()
    outputs = [{"key": "far", "type": "udp", "url": f"udp://127.0.0.1:{relay.port}"}]
    monitored = {"type": "udp", "url": f"udp://127.0.0.1:{relay.to_port}"}
    with (
        relay.running(),
        playout(tmp_path, items, outputs=outputs, monitored=monitored, audio_bitrate="128k") as worker,
    ):

        def has(**wanted: float) -> bool:
            found = worker.status()["returned"]
            return found["state"] == "receiving" and all(found[name] >= least for name, least in wanted.items())

        wait_until(lambda: worker.status().get("returned", {}).get("loudness_lufs"), 40, "the loudness is known")
        good = worker.status()["returned"]
        assert (good["black_seconds"], good["frozen_seconds"], good["silent_seconds"]) == (0, 0, 0)
        assert -24 < good["loudness_lufs"] < -16, "ffmpeg's sine is at -18 dBFS"

        worker.ask("/cue", body={"key": "black", "take": True})
        wait_until(lambda: has(black_seconds=3.0), 30, f"black is noticed: {worker.status()['returned']}")
        worker.ask("/cue", body={"key": "still", "take": True})
        wait_until(lambda: has(frozen_seconds=3.0, silent_seconds=3.0), 30, "a still, silent picture is noticed")
        assert worker.status()["returned"]["black_seconds"] == 0
        worker.ask("/cue", body={"key": "good", "take": True})
        wait_until(lambda: not any(worker.status()["returned"][f"{kind}_seconds"] for kind in KINDS), 30, "all is well")

        relay.is_open = False
        wait_until(lambda: worker.status()["returned"]["lost_seconds"] >= 3, 30, "the loss is noticed")
        relay.is_open = True
        wait_until(lambda: worker.status()["returned"]["state"] == "receiving", 40, "it is received again")
        assert worker.status()["encoder_restarts"] == 0


def test_an_address_that_sends_nothing_is_lost_with_the_reason_and_without_its_secret(tmp_path: Path) -> None:
    """S-05."""
    make_clip(tmp_path / "good.mp4", "testsrc2=size=320x180:rate=25", 60)
    monitored = {"type": "rtmp", "url": f"rtmp://127.0.0.1:{free_port()}/live/{SECRET}"}
    items = [asset("good", "good.mp4", seconds=60.0)]
    with playout(tmp_path, items, monitored=monitored, secrets=[SECRET]) as worker:
        wait_until(lambda: worker.status().get("returned", {}).get("error"), 40, "the reason is there")
        found = worker.status()["returned"]
        assert found["state"] == "lost"
        assert SECRET not in str(worker.status())
        assert not [pid for pid in children_of(worker.process.pid) if SECRET in command_of(pid)]
