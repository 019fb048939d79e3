"""The programs a worker can run, by name."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable

from worker.process import exits


def capture() -> int:
    from worker.capture.program import run

    return run()


def disk() -> int:
    """Print how much room the media folder has, once it is sure that it can be written to; the log is read."""
    media = os.environ.get("AIRLOCK_MEDIA", "/media")
    usage = shutil.disk_usage(media)
    try:
        with tempfile.TemporaryFile(dir=media):
            pass
    except OSError as error:
        print(f"the worker may not write to the media folder: {error.strerror}", flush=True)
        return exits.CANNOT_WRITE
    print(json.dumps({"free_bytes": usage.free, "total_bytes": usage.total}), flush=True)
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
