"""Asks all running media workers for their status at once, on one thread (P-03). A silent one delays nobody (P-18).

The answers of one moment are stored with one statement, and the owners are told. Everything else (silence, a hung main
loop, another end time) goes to `poll`, which needs a thread of the node.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from nodes.machines.node_clock import StationReading, read_station_time
from nodes.models import Workload
from nodes.workloads import token_of
from nodes.workloads.heartbeats import Heartbeat, store
from nodes.workloads.host_addresses import HostAddresses
from nodes.workloads.poll import Answer, Asked, hangs, has_other_end
from nodes.workloads.reachability import Heard
from nodes.workloads.status_question import Known, Question, fetch
from nodes.workloads.worker_clock import is_clock_fine
from station.leader_term import Term
from station.redaction import redact
from station.sealing import CannotOpen
from worker.wire.status import WorkerStatus

logger = logging.getLogger(__name__)

# Answers that arrive within this time are stored together.
TOGETHER_SECONDS = 0.02
FORGET_SECONDS = 60.0


@dataclass(frozen=True)
class StatusResult:
    """What a media worker answered, or why it did not."""

    question: Question
    known: Known
    answer: Answer | Exception

    def read(self) -> Answer:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def plain_status(self, station: StationReading) -> WorkerStatus | None:
        """The status, if there is nothing to do but to store it."""
        asked, answer = self.question, self.answer
        if isinstance(answer, Exception) or asked.has_missed or hangs(answer.status, is_fenced=asked.is_fenced):
            return None
        if asked.ends_at is not None and has_other_end(answer.status, asked.ends_at):
            return None
        return answer.status if is_clock_fine(asked.node, answer.status.clock, answer.call, station) else None


# What to do with a stored status (the owner is told; False if it is busy), and with an answer that needs a check.
Tell = Callable[[Question, str], bool]
Check = Callable[[Question, str, Asked], object]


class StatusPoller:
    """A leader's thread that asks, and one that stores the answers. Both end with its term."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}
        self._asking: set[int] = set()
        self._results: list[StatusResult] = []
        self._is_storing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._store_thread = ThreadPoolExecutor(1, "statuses")
        self._tell: Tell = _do_nothing
        self._check: Check = _do_nothing
        self._addresses = HostAddresses()

    def ask(self, term: Term, questions: Collection[Question], tell: Tell, check: Check) -> None:
        """Begin to ask these; returns at once. One that is being asked already is left out."""
        if not questions:
            return
        self._tell, self._check = tell, check
        with self._lock:
            if term.is_over:
                return
            self._idle.clear()
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(term,), daemon=True, name="status-poller").start()
            self._loop.call_soon_threadsafe(self._begin, term, list(questions))

    def wait_idle(self, seconds: float) -> bool:
        """True if all answers are stored. For a single turn; the loop never waits."""
        return self._idle.wait(seconds)

    def _run(self, term: Term) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._live_with(term))
        with self._lock:
            loop, self._loop = self._loop, None
        loop.close()
        self._store_thread.shutdown(wait=False)

    async def _live_with(self, term: Term) -> None:
        while not term.is_over:
            await asyncio.sleep(0.5)
        asking = asyncio.all_tasks() - {asyncio.current_task()}
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    # --- on the asking thread ---

    def _begin(self, term: Term, questions: Iterable[Question]) -> None:
        fresh = [each for each in questions if each.pk not in self._asking]
        self._asking |= {each.pk for each in fresh}
        asyncio.get_running_loop().create_task(self._ask_all(term, fresh)).add_done_callback(_log_failure)

    async def _ask_all(self, term: Term, questions: list[Question]) -> None:
        loop = asyncio.get_running_loop()
        unknown = [each.pk for each in questions if each.pk not in self._known]
        try:
            if unknown:
                self._known |= await loop.run_in_executor(self._store_thread, _load, unknown)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("Tokens of media workers were not read; trying again. error=%s", str(error).strip())
        for each in questions:
            if each.pk not in self._known:  # removed meanwhile, or the database is away: the next turn asks again
                self._asking.discard(each.pk)
        self._note_idle()
        here = [(each, self._known[each.pk]) for each in questions if each.pk in self._known]
        await asyncio.gather(*(self._ask_one(term, each, known) for each, known in here))

    async def _ask_one(self, term: Term, question: Question, known: Known) -> None:
        known.asked_at = time.monotonic()
        answer = await fetch(question, known, self._addresses)
        self._results.append(StatusResult(question, known, answer))
        if len(self._results) == 1 and not self._is_storing:
            asyncio.get_running_loop().call_later(TOGETHER_SECONDS, self._store, term)

    def _store(self, term: Term) -> None:
        if term.is_over:
            return
        results, self._results, self._is_storing = self._results, [], True
        storing = asyncio.get_running_loop().run_in_executor(self._store_thread, partial(self._take, term, results))
        storing.add_done_callback(lambda done: self._stored(term, results, done))

    def _stored(self, term: Term, results: list[StatusResult], done: "asyncio.Future[None]") -> None:
        _log_failure(done)
        self._is_storing = False
        self._asking -= {result.question.pk for result in results}
        for pk in [pk for pk, known in self._known.items() if time.monotonic() - known.asked_at > FORGET_SECONDS]:
            del self._known[pk]
        if self._results:
            self._store(term)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._asking:
            self._idle.set()

    # --- on the storing thread ---

    def _take(self, term: Term, results: list[StatusResult]) -> None:
        """Store the plain statuses and tell their owners; hand everything else to `poll`."""
        if term.is_over:
            return
        plain: dict[int, WorkerStatus] = {}
        stored: set[int] = set()
        is_database_away = False
        close_old_connections()
        try:
            station = read_station_time()
            plain = {each.question.pk: status for each in results if (status := each.plain_status(station))}
            stored = store([Heartbeat(pk, _redacted(status)) for pk, status in plain.items()])
        except (DatabaseError, InterfaceError) as error:
            is_database_away = True
            logger.warning("Statuses were not stored; the next ones will be. error=%s", str(error).strip())
        finally:
            connections.close_all()
        for result in results:
            pk, known = result.question.pk, result.known
            is_answer = isinstance(result.answer, Answer)
            if is_answer:
                is_heartbeat = pk in plain or is_database_away
                term.memory(Heard).note(pk, result.question.node.pk, is_heartbeat=is_heartbeat)
            if pk in stored:
                known.status = plain[pk]
                self._tell_owner(result.question, known)
            elif pk not in plain and not (is_answer and is_database_away):
                self._check(result.question, known.owner, result.read)

    def _tell_owner(self, question: Question, known: Known) -> None:
        if known.status is not None and known.must_tell(known.status) and not self._tell(question, known.owner):
            known.told_at = -1e9  # it is busy with an older status: the next one tells it


def _do_nothing(*_: object) -> bool:
    """Before the first question."""
    return True


def _load(pks: list[int]) -> dict[int, Known]:
    """Their tokens. Decrypted once; a running workload keeps its token and port."""
    close_old_connections()
    try:
        rows = Workload.objects.filter(pk__in=pks, state=Workload.State.RUNNING)
        return {row.pk: Known(row.owner, row.generation, row.program, row.control_port, _token(row)) for row in rows}
    finally:
        connections.close_all()


def _token(workload: Workload) -> str | CannotOpen:
    try:
        return token_of(workload)
    except CannotOpen as fault:
        return fault


def _redacted(status: WorkerStatus) -> WorkerStatus:
    return replace(status, error=redact(status.error))


def _log_failure(done: "asyncio.Future[None]") -> None:
    if not done.cancelled() and done.exception() is not None:
        logger.error("Statuses could not be asked for or stored.", exc_info=done.exception())
