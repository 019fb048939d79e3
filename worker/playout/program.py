"""The `playout` program: a media worker that plays a channel, from start to end, and its HTTP interface."""

import os
import signal
import threading
import time
from pathlib import Path

from worker.media.ffmpeg import find_binary
from worker.playout.asrun_spool import Spool
from worker.playout.director import Director
from worker.playout.loaded_config import ChannelSetup, load_rundown, load_setup
from worker.playout.main_loop import MainLoop
from worker.process import exits
from worker.process.config_line import ConfigError, media_folder, parse_line, read_line
from worker.process.http_server import Post, Server
from worker.process.station_clock import clock
from worker.wire import codec
from worker.wire.asrun import AsRunPage
from worker.wire.commands import Cue, Load, Pause, Play, SetClock, Skip, Stop
from worker.wire.configuration import PlayoutConfig
from worker.wire.rundown import Rundown
from worker.wire.status import PlayoutStatus, final_line

STOPPED, ISOLATED = "stopped", "isolated"
LOOK_SECONDS = 0.5


def run() -> int:
    """Returns the exit code."""
    line = read_line()
    if line is None:
        print("no config arrived in time", flush=True)
        return exits.NO_CONFIG
    try:
        config = load_setup(parse_line(PlayoutConfig, line), media_folder())
    except ConfigError as error:
        print(f"bad config: {error}", flush=True)
        return exits.BAD_CONFIG
    binary = find_binary()
    if binary is None:
        print("no ffmpeg on this machine", flush=True)
        return exits.BAD_CONFIG
    wake = threading.Event()
    spool = Spool(config.spool, config.control.generation)
    director = Director(config, spool, clock.now(), wake.set)
    main_loop = MainLoop(config, binary, director, wake)
    playout = Playout(config, director, main_loop, spool)
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
        main_loop.run(playout.should_end)
    finally:
        main_loop.close(playout.reason)
    print(final_line(playout.status()), flush=True)
    return exits.ISOLATED if playout.reason == ISOLATED else exits.DONE


class Playout:
    """The HTTP interface: status and commands. The director decides."""

    def __init__(self, config: ChannelSetup, director: Director, main_loop: MainLoop, spool: Spool) -> None:
        self.config, self.director, self.main_loop, self.spool = config, director, main_loop, spool
        self.should_end = threading.Event()
        self.reason = STOPPED
        self.gets = {
            "/status": lambda query: self.status(),
            "/asrun": lambda query: self.asrun(int(query.get("since", "0"))),
        }
        self.posts = [
            Post(Load, self.load),
            Post(Play, lambda command: director.play()),
            Post(Pause, lambda command: director.pause()),
            Post(Skip, lambda command: director.skip(clock.now())),
            Post(Cue, self.cue),
            Post(SetClock, self.set_clock),
            Post(Stop, lambda command: self.ask_to_stop()),
        ]

    def ask_to_stop(self) -> None:
        self.should_end.set()

    def status(self) -> PlayoutStatus:
        return self.main_loop.status(self.director.status(clock.now()), self.spool.revision)

    def asrun(self, since: int) -> AsRunPage:
        control, found = self.config.control, self.spool.since(since)
        return AsRunPage(control.owner, control.generation, found.revision, found.is_all, found.entries)

    def load(self, command: Load) -> None:
        """Play another list. The item on air stays on air."""
        self.main_loop.learn(command.redact)
        rundown = load_rundown(command.rundown, self.config.media, command.sources)
        self.director.load(rundown, clock.now())
        _save(self.config.spool / "rundown.json", command.rundown)

    def cue(self, command: Cue) -> None:
        """Play this item next, or with `take` now."""
        if not self.director.cue(command.key):
            raise ValueError("there is no such item in the list")
        if command.take:
            self.director.skip(clock.now())

    def set_clock(self, command: SetClock) -> None:
        """The control plane corrects our clock."""
        clock.take(command)

    def watch_isolation(self, server: Server) -> None:
        """P-13: end the channel if the control plane is silent for too long, where it is set so."""
        limit = self.config.isolation_seconds
        while limit is not None and not self.should_end.wait(LOOK_SECONDS):
            if time.monotonic() - server.heard_at > limit:
                self.reason = ISOLATED
                print(f"The channel ends: the control plane was silent for too long. seconds={limit:.0f}", flush=True)
                self.should_end.set()


def _save(path: Path, rundown: Rundown) -> None:
    """Write the list atomically. A failure is only reported: the list is played all the same."""
    draft = path.with_suffix(".new")
    try:
        draft.write_text(codec.dumps(rundown))
        os.replace(draft, path)
    except OSError as error:
        print(f"{path.name} could not be written. error={error}", flush=True)
