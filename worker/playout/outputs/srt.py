"""An SRT output that connects to its receiver. ffmpeg only speaks SRT; the stream is shaped by us."""

from urllib.parse import parse_qsl, urlsplit

from worker.media.ffmpeg import Binary
from worker.media.sources import with_numeric_host
from worker.playout.outputs.arguments import PASSED_ON, srt_arguments
from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.paced_feed import PacedFeed
from worker.playout.outputs.senders import OutputSender
from worker.playout.outputs.shaping import Rate, Shaper
from worker.playout.pipes import Pump
from worker.wire.configuration import Output


def is_listening(output: Output) -> bool:
    """It waits for receivers to connect, instead of connecting to one."""
    return dict(parse_qsl(urlsplit(output.url).query)).get("mode") == "listener"


class SrtSender(OutputSender):
    def __init__(self, binary: Binary, fan: Fan, output: Output, secrets: tuple[str, ...], rate: Rate) -> None:
        super().__init__(binary, fan, output, secrets)
        self.rate = rate
        self._feed: PacedFeed | None = None

    @property
    def inputs(self) -> list[str]:
        return PASSED_ON

    def command(self) -> tuple[list[str], dict[str, str]]:
        url = with_numeric_host(self.output.url) if self.binary.is_static else self.output.url
        return srt_arguments(self.output, url, self.rate.bits_per_second), dict(self.output.secret)

    def attach(self, pump: Pump) -> None:
        self._feed = PacedFeed(self.fan, Shaper(self.rate), lambda data, stamp: pump.put(data), has_recent=True)
        self._feed.start()

    def detach(self, pump: Pump) -> None:
        if self._feed is not None:
            self._feed.end()
            self._feed = None
