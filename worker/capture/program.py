"""The `capture` program: a media worker that records, from start to end, and its HTTP interface."""

import signal
import threading

from worker.capture.folders import Folders
from worker.capture.reasons import DISK_FULL
from worker.capture.recording_loop import Capture
from worker.media.ffmpeg import find_binary
from worker.process import exits
from worker.process.config_line import ConfigError, media_folder, parse_line, read_line
from worker.process.http_server import Post, Server
from worker.wire.commands import End, SetClock, Stop
from worker.wire.configuration import CaptureConfig
from worker.wire.status import final_line


def run() -> int:
    """Returns the exit code."""
    line = read_line()
    if line is None:
        print("no config arrived in time", flush=True)
        return exits.NO_CONFIG
    try:
        handover = parse_line(CaptureConfig, line)
        folders = Folders.of(handover.config, media_folder())
    except ConfigError as error:
        print(f"bad config: {error}", flush=True)
        return exits.BAD_CONFIG
    binary = find_binary()
    if binary is None:
        print("no ffmpeg on this machine", flush=True)
        return exits.BAD_CONFIG
    try:
        capture = Capture(handover.control, handover.config, folders, binary)
    except OSError as error:
        print(f"the media folder cannot be used: {error}", flush=True)
        return exits.CANNOT_WRITE
    signal.signal(signal.SIGTERM, lambda *_: capture.ask_to_stop())
    signal.signal(signal.SIGINT, lambda *_: capture.ask_to_stop())
    try:
        gets = {"/status": lambda query: capture.status(int(query.get("parts_after", 0)))}
        posts = [Post(End, capture.take_end), Post(SetClock, capture.take_clock)]
        posts.append(Post(Stop, lambda command: capture.ask_to_stop()))
        server = Server(handover.control, gets, posts, folders.preview)
    except OSError as error:
        print(f"the control port {handover.control.port} cannot be used: {error.strerror}", flush=True)
        return exits.PORT_TAKEN
    threading.Thread(target=server.serve_forever, daemon=True).start()
    reason = capture.record()
    print(final_line(capture.status(capture.known_parts)), flush=True)
    return exits.DISK_FULL if reason == DISK_FULL else exits.DONE
