"""Writes the results of runs in batches, on its own thread, and repeats until the database has them."""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, connections

from jobs.job_worker.executors import Attempt
from jobs.job_worker.handler_call import Outcome, Success
from jobs.models import Run
from jobs.runs.finishing import Failure, succeed, tell_of_room
from jobs.runs.unreadable import fail_or_set_aside
from station.clock import database_now

logger = logging.getLogger(__name__)

BATCH = 500
BUSY = 8
PATIENCE_SECONDS = 0.03
PAUSES_SECONDS = (0.05, 0.2, 0.5, 1.0)

Report = tuple[Attempt, Outcome]


class ResultWriter:
    """Holds results until they are written. An unavailable database delays them; none is lost."""

    def __init__(self, name: str, let_go: Callable[[list[UUID]], None], reported: Callable[[int, bool], None]) -> None:
        self._name, self._let_go, self._reported = name, let_go, reported
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="result-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def put(self, attempt: Attempt, outcome: Outcome) -> None:
        self._reports.put((attempt, outcome))

    def stop(self, seconds: float) -> bool:
        """Write the remaining results and end. True if all were written in time."""
        self._reports.put(None)
        self._thread.join(seconds)
        self._stop.set()
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (reports := self._take()) is not None:
                self._let_go([attempt.run.token for attempt, _ in reports])
                self._write_until_done(reports)
        finally:
            connections.close_all()

    def _take(self) -> list[Report] | None:
        """All waiting results, at least one; None at the end. Under load a short wait makes the batches larger."""
        first = self._reports.get()
        if first is None:
            return None
        reports = [first, *self._drain(BATCH - 1)]
        if BUSY <= len(reports) < BATCH and not self._is_ending:
            time.sleep(PATIENCE_SECONDS)
            reports += self._drain(BATCH - len(reports))
        return reports

    def _drain(self, limit: int) -> list[Report]:
        found: list[Report] = []
        with contextlib.suppress(queue.Empty):
            while len(found) < limit:
                report = self._reports.get_nowait()
                if report is None:
                    self._is_ending = True
                    self._reports.put(None)  # put the end marker back: these results come first
                    break
                found.append(report)
        return found

    def _write_until_done(self, reports: list[Report]) -> None:
        failures, will_retry = 0, False
        while not self._stop.is_set():
            try:
                will_retry = self._write(reports)
                break
            except (OperationalError, InterfaceError) as error:
                logger.warning("Results wait for the database. count=%s error=%s", len(reports), str(error).strip())
                connection.close()
                self._stop.wait(PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)])
                failures += 1
            except Exception:  # one result that cannot be written must not block the others
                logger.exception("Results could not be written. runs=%s", [attempt.run.id for attempt, _ in reports])
                if len(reports) > 1:
                    for report in reports:
                        self._write_until_done([report])
                    return
                will_retry = self._say_it_cannot_be_stored(reports[0][0])
                break
        self._reported(len(reports), will_retry)

    def _say_it_cannot_be_stored(self, attempt: Attempt) -> bool:
        try:
            return self._write([(attempt, Failure(Run.Fault.HANDLER_ERROR, "The result cannot be stored."))])
        except Exception:  # its lease expires, and the sweep rescues it
            logger.exception("The failure could not be written either. run=%s", attempt.run.id)
            return False

    def _write(self, reports: list[Report]) -> bool:
        """Write all successes in one statement, failures one by one. True if a run will be retried.

        Writing a result twice changes nothing: the token or the state no longer matches.
        """
        now = database_now()
        good = [(attempt.run, outcome.result) for attempt, outcome in reports if isinstance(outcome, Success)]
        if good:
            done = succeed([run for run, _ in good], [result for _, result in good], now=now, by=self._name)
            lost = [run.id for run, _ in good if run.id not in done]
            if lost:
                self._say_lost(lost)
        ends = [self._fail(attempt, outcome, now) for attempt, outcome in reports if isinstance(outcome, Failure)]
        limited = {attempt.run.job_id for attempt, _ in reports if attempt.spec.is_limited}
        tell_of_room(sorted(limited))
        return Run.State.RETRY in ends

    def _fail(self, attempt: Attempt, failure: Failure, now: datetime) -> str | None:
        run = attempt.run
        if failure.code == Run.Fault.LEASE_LOST:
            self._say_lost([run.id])
            return None
        to = fail_or_set_aside(run, failure, attempt.spec, now=now, by=self._name)
        if to is None:
            self._say_lost([run.id])
        else:
            logger.info("An attempt ended. run=%s attempt=%s code=%s now=%s", run.id, run.attempt, failure.code, to)
        return to

    def _say_lost(self, ids: list[int]) -> None:
        """J-08: another job worker owns these runs now; our results are ignored."""
        already = set(
            Run.objects.filter(pk__in=ids, state=Run.State.SUCCEEDED, worker_name=self._name).values_list(
                "pk", flat=True
            )
        )
        for pk in set(ids) - already:  # a result that we wrote before is no loss
            logger.warning("The lease was lost; the result is ignored. run=%s", pk)
