"""Recording from foreign senders: each source type whole, after an outage, and with a wrong key."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from testing.capturing import Worker, capture
from testing.signals import senders
from testing.signals.senders import Sender
from testing.signals.verdicts import decoded, gap_seconds
from testing.waiting import wait_until

pytestmark = [pytest.mark.signals, pytest.mark.paced, pytest.mark.usefixtures("signal_tools")]

FRAMES = 75
# A stream that is joined between two key frames shows its picture from the next one on.
KEY_FRAMES = 1.0
AWAY = 10.0
# ffmpeg corrects a jump back of less than 10 s twice: a sender that starts again so soon makes the part look longer.
SETTLED = 14.0
# The device starts, we connect again, and the first key frame comes.
RETURN = 4.0
LOGIN = ("anna", "s3cret-word")
# The quickest and most different ones run with every change, the others at night.
SENDERS: dict[str, Callable[[Path], Sender]] = {
    "srt-caller": senders.srt_caller,
    "srt-listener": senders.srt_listener,
    "rtmp-pull": senders.rtmp_pull,
    "rtmp-listener": senders.rtmp_listener,
    "rtp": senders.rtp,
    "udp-multicast": partial(senders.udp, host=senders.MULTICAST),
    "rtsp-tcp-password": partial(senders.rtsp, login=LOGIN),
    "hls-password": partial(senders.hls, login=":".join(LOGIN)),
}
MORE: dict[str, Callable[[Path], Sender]] = {
    "srt-relay": senders.srt_relay,
    "udp": senders.udp,
    "rtp-multicast": partial(senders.rtp, host=senders.MULTICAST),
    "rtsp-tcp": senders.rtsp,
    "rtsp-udp": partial(senders.rtsp, transport="udp"),
    "hls": senders.hls,
    "hls-encrypted": senders.hls_encrypted,
}
ALL = [*SENDERS, *(pytest.param(name, marks=pytest.mark.night) for name in MORE)]
OUTAGES = ["srt-caller", "srt-listener", "srt-relay", "rtmp-pull", "rtmp-listener", "udp", "rtp", "rtsp-tcp", "hls"]


def make(name: str, folder: Path) -> Sender:
    return (SENDERS | MORE)[name](folder)


@pytest.mark.parametrize("name", ALL)
def test_a_foreign_sender_is_recorded_whole(name: str, tmp_path: Path) -> None:
    """R-15, S-05: every frame and all of the sound between the first frame and the stop; no gap, no restart."""
    sender = make(name, tmp_path)
    with sender.on_air(), capture(tmp_path, sender.source, secrets=sender.secrets) as worker:
        worker.wait_for(state="recording", frames=FRAMES)
        final = worker.stop()
    held = decoded(worker.files())
    [part] = final["parts"]
    assert final["gaps"] == []
    assert part["seconds"] - KEY_FRAMES - 0.5 < held.seconds < part["seconds"] + 0.5, held
    assert held.sound_seconds == pytest.approx(part["seconds"], abs=0.5) or not sender.has_sound, held


@pytest.mark.night
@pytest.mark.parametrize("name", OUTAGES)
def test_a_source_that_is_away_for_ten_seconds_leaves_a_gap_of_that_length(name: str, tmp_path: Path) -> None:
    """R-15: the parts, and a gap that is right to one second."""
    sender = make(name, tmp_path)
    on_air = time.monotonic()
    with sender.on_air(), capture(tmp_path, sender.source, secrets=sender.secrets) as worker:
        worker.wait_for(state="recording", frames=FRAMES)
        wait_until(lambda: time.monotonic() - on_air > SETTLED, 30, "the sender has been on air for a while")
        sender.device.stop()
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > AWAY, AWAY + 5, "the source is away", claim=True)
        before = total_frames(worker)
        sender.device.start()
        away = time.monotonic() - began
        wait_until(lambda: total_frames(worker) > before + FRAMES, 40, f"the source is back: {worker.status()}")
        final = worker.stop()
    held = decoded(worker.files())
    assert away - 1.0 < gap_seconds(final) < away + RETURN, final
    recorded = sum(part["seconds"] for part in final["parts"])
    assert recorded - 2 * KEY_FRAMES - 0.5 < held.seconds < recorded + 0.5, (held, final)


def total_frames(worker: Worker) -> int:
    return sum(part["frames"] for part in worker.status().get("parts", []))


@pytest.mark.night
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("srt-caller", "passphrase"),
        ("srt-listener", "passphrase"),
        ("rtsp-tcp-password", "password"),
        ("hls-password", "password"),
    ],
)
def test_a_wrong_key_is_named_as_the_reason(name: str, words: str, tmp_path: Path) -> None:
    """R-15: one sentence the operator understands, at once; the key itself is not in it (S-05)."""
    sender = make(name, tmp_path)
    assert sender.wrong
    with sender.on_air(), capture(tmp_path, sender.wrong, secrets=["not-the-passphrase"]) as worker:
        wait_until(lambda: words in worker.status().get("error", ""), 30, f"the reason is said: {worker.status()}")
        status = worker.status()
    assert status["frames"] == 0
    assert "not-the-" not in str(status)
