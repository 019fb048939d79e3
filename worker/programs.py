"""The programs that a media worker can run, by name."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime

from worker.process import exits
from worker.process.node_time import node_time
from worker.wire import codec
from worker.wire.configuration import DiskAnswer


def capture() -> int:
    from worker.capture.program import run

    return run()


def disk() -> int:
    """Check that the media folder can be written to, and print its free space. The control plane reads the log."""
    media = os.environ.get("AIRLOCK_MEDIA", "/media")
    usage = shutil.disk_usage(media)
    try:
        with tempfile.TemporaryFile(dir=media):
            pass
    except OSError as error:
        print(f"the media worker may not write to the media folder: {error.strerror}", flush=True)
        return exits.CANNOT_WRITE
    node_at = datetime.fromtimestamp(node_time(), UTC)
    print(codec.dumps(DiskAnswer(usage.free, usage.total, node_at)), flush=True)
    return exits.DONE


def probe() -> int:
    from worker.capture.probe import run

    return run()


def playout() -> int:
    from worker.playout.program import run

    return run()


PROGRAMS: dict[str, Callable[[], int]] = {"capture": capture, "playout": playout, "disk": disk, "probe": probe}


def main(argv: list[str]) -> int:
    if len(argv) != 1 or argv[0] not in PROGRAMS:
        print(f"usage: python3 -m worker {'|'.join(PROGRAMS)}", file=sys.stderr)
        return exits.BAD_CONFIG
    return PROGRAMS[argv[0]]()
