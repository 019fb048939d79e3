"""`playout`: the whole life of a channel's worker, and what it answers over HTTP."""

import json
import signal
import threading
import time
from typing import Any

from worker.media.ffmpeg import find_binary
from worker.playout.asrun_spool import Spool, save_json
from worker.playout.director import Director
from worker.playout.main_loop import Stage
from worker.process import exits
from worker.process.http_server import Server
from worker.wire.channel import PlayoutConfig, parse_playout, parse_rundown
from worker.wire.configuration import ConfigError, read_line

STOPPED, ISOLATED = "stopped", "isolated"
LOOK_SECONDS = 0.5


def run() -> int:
    """Returns the exit code."""
    line = read_line()
    if line is None:
        print("no config was handed over in time", flush=True)
        return exits.NO_CONFIG
    try:
        config = parse_playout(line)
    except ConfigError as error:
        print(f"bad config: {error}", flush=True)
        return exits.BAD_CONFIG
    binary = find_binary()
    if binary is None:
        print("no ffmpeg on this machine", flush=True)
        return exits.BAD_CONFIG
    wake = threading.Event()
    spool = Spool(config.spool, config.control.generation)
    director = Director(config, spool, time.time(), wake.set)
    stage = Stage(config, binary, director, wake)
    playout = Playout(config, director, stage, spool)
    signal.signal(signal.SIGTERM, lambda *_: playout.ask_to_stop())
    signal.signal(signal.SIGINT, lambda *_: playout.ask_to_stop())
    try:
        server = Server(config.control, playout.gets, playout.posts, config.preview)
    except OSError as error:
        print(f"the control port {config.control.port} cannot be used: {error.strerror}", flush=True)
        return exits.PORT_TAKEN
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=playout.watch_isolation, args=[server], daemon=True).start()
    try:
        stage.run(playout.should_end)
    finally:
        stage.close(playout.reason)
    print(json.dumps({"final": playout.status()}), flush=True)
    return exits.ISOLATED if playout.reason == ISOLATED else exits.DONE


class Playout:
    """Status and transport: thin, the director decides."""

    def __init__(self, config: PlayoutConfig, director: Director, stage: Stage, spool: Spool) -> None:
        self.config, self.director, self.stage, self.spool = config, director, stage, spool
        self.should_end = threading.Event()
        self.reason = STOPPED
        self.gets = {
            "/status": lambda query: self.status(),
            "/asrun": lambda query: {**self._name(), **spool.since(int(query.get("since", "0")))},
        }
        self.posts = {
            "/load": self.load,
            "/play": lambda told: director.play(),
            "/pause": lambda told: director.pause(),
            "/skip": lambda told: director.skip(time.time()),
            "/cue": self.cue,
            "/stop": lambda told: self.ask_to_stop(),
        }

    def ask_to_stop(self) -> None:
        self.should_end.set()

    def _name(self) -> dict[str, Any]:
        return {"owner": self.config.control.owner, "generation": self.config.control.generation}

    def status(self) -> dict[str, Any]:
        now = time.time()
        return {
            **self._name(),
            **self.stage.status(),
            **self.director.as_dict(now),
            "asrun_revision": self.spool.revision,
        }

    def load(self, told: dict[str, Any]) -> None:
        """POST /load: another list; what is on stays on."""
        self.stage.learn(str(word) for word in told.get("redact") or ())
        rundown = parse_rundown(told["rundown"], self.config.media, told.get("sources") or {})
        self.director.load(rundown, time.time())
        kept = {name: value for name, value in told["rundown"].items() if name != "sources"}
        save_json(self.config.spool / "rundown.json", kept)

    def cue(self, told: dict[str, Any]) -> None:
        """POST /cue: this one next; with `take`, now."""
        if not self.director.cue(str(told["key"])):
            raise ValueError("there is no such item in the list")
        if told.get("take"):
            self.director.skip(time.time())

    def watch_isolation(self, server: Server) -> None:
        """P-13: some channels must not go on when nobody can steer them."""
        limit = self.config.isolation_seconds
        while limit is not None and not self.should_end.wait(LOOK_SECONDS):
            if time.monotonic() - server.heard_at > limit:
                self.reason = ISOLATED
                print(f"nobody was heard of for {limit:.0f} s: the channel ends", flush=True)
                self.should_end.set()
