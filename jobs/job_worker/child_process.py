"""The child process of one attempt. The fork server has Django loaded, so that a child starts in milliseconds.

It may be killed at any moment. It leads a process group, so that the programs it starts end with it, and it holds one
end of a pipe whose other end only its job worker has: when that closes, the whole group is killed, even if the job
worker was killed.
"""

import contextlib
import os
import resource
import signal
import threading
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from jobs.definitions.job_decorator import registry
from jobs.definitions.run_context import RunContext
from jobs.job_worker.handler_call import call
from jobs.models import Run
from jobs.runs.finishing import Failure


def main(reply: Connection, lifeline: Connection, module: str, context: RunContext, payload: Any) -> None:
    """Run the handler and send its outcome."""
    with contextlib.suppress(OSError):
        os.setsid()
    threading.Thread(target=_die_with_worker, args=[lifeline], daemon=True).start()
    import_module(module)
    signal.signal(signal.SIGTERM, lambda *_: context.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the job worker, which stops its runs itself
    spec = registry.get(context.job)
    if spec is None:
        reply.send(Failure(Run.Fault.HANDLER_ERROR, f"{module} does not declare {context.job}."))
        return
    if spec.memory_mb:
        _limit_memory(spec.memory_mb)
    reply.send(call(spec, context, payload))
    reply.close()


def _die_with_worker(lifeline: Connection) -> None:
    """Nothing is ever written to this pipe: the read ends only when the job worker is gone."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _limit_memory(megabytes: int) -> None:
    """Allow this much on top of what the process uses now."""
    with open("/proc/self/statm") as handle:  # noqa: PTH123
        pages = int(handle.read().split()[0])
    limit = pages * resource.getpagesize() + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
