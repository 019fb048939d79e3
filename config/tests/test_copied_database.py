"""S-13: a machine with a copy of the database touches nothing on the original's nodes until a person decides."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.models import JobWorker
from nodes import workloads
from nodes.machines import node_controls, placement
from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from nodes.runtimes import runtime_for
from nodes.runtimes.base import Launch, MayNotAct, NameTaken, Status
from nodes.tests.test_runtime_conformance import launch_named
from nodes.workloads import reconcile
from nodes.workloads.media_worker_client import WorkerRefused, fetch_status, tell
from nodes.workloads.node_checks import check_node, own_label
from nodes.workloads.orphans import Sightings
from scheduling.leader.election import read_status
from station import admission
from station.clock import database_now
from station.leader_term import Term
from station.models import AdmittedMachine, Alert, Installation
from testing.processes import manage, start_manage
from testing.waiting import wait_until
from testing.workloads import like_a_channel
from worker.wire.commands import Stop
from worker.wire.status import WorkerStatus

OTHER = {"INSTALLATION_KEY": "the key of another machine"}
SPEC = {"source": {"type": "test", "url": "", "size": "160x90"}, "folder": "copy", "name": "copy", "min_free_bytes": 1}


def run_workload(node: Node) -> Workload:
    workload = workloads.want(
        "channel:1",
        node=node,
        program="capture",
        spec=SPEC,
        secret={},
        now=database_now(),
        supervision=like_a_channel(),
    )
    reconcile.reconcile(workload.pk)
    workload.refresh_from_db()
    assert workload.state == Workload.State.RUNNING, workload.error
    return workload


def status_of(node: Node, name: str) -> Status | None:
    seen = runtime_for(node).inspect(name)
    return seen.status if seen else None


@pytest.mark.django_db
def test_the_first_machine_of_a_new_database_is_admitted_by_itself_and_stays_so() -> None:
    """S-13."""
    first = admission.label()
    assert admission.label() == first == Installation.current().identity.hex
    assert [machine.digest for machine in AdmittedMachine.objects.all()] == [admission.own_digest()]
    assert not Alert.objects.exists()


@pytest.mark.django_db
def test_an_admitted_machine_reads_its_label_with_one_question(django_assert_num_queries: Any) -> None:
    admission.label()
    with django_assert_num_queries(1):
        admission.label()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_of_two_machines_that_start_on_a_new_database_one_is_admitted(tmp_path: Path) -> None:
    """S-13: the other one is told what to do."""
    keys = ["one", "two", "three"]
    logs = [tmp_path / key for key in keys]
    together = [
        start_manage("shell", "-c", "from station import admission; admission.label()", log=log, INSTALLATION_KEY=key)
        for key, log in zip(keys, logs, strict=True)
    ]
    codes = [process.wait(120) for process in together]
    assert sorted(codes) == [0, 1, 1], [log.read_text() for log in logs]
    assert AdmittedMachine.objects.count() == 1


@pytest.mark.django_db
def test_a_machine_with_a_copy_of_the_database_gets_no_label(settings: Any) -> None:
    """S-13."""
    original = admission.own_name()
    admission.label()
    settings.INSTALLATION_KEY = "another"
    with pytest.raises(admission.NotAdmitted, match="installation new") as refusal:
        admission.label()
    assert original in str(refusal.value)
    assert AdmittedMachine.objects.count() == 1


@pytest.mark.django_db
def test_adopting_a_machine_admits_it_beside_the_first(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """S-13: a second machine of the same installation."""
    first = admission.label()
    settings.INSTALLATION_KEY = "another"
    with pytest.raises(SystemExit):
        call_command("installation", "status", "--json")
    assert json.loads(capsys.readouterr().out)["is_admitted"] is False
    call_command("installation", "adopt")
    call_command("installation", "status", "--json")
    assert "now acts for" in capsys.readouterr().out
    assert admission.label() == first
    assert AdmittedMachine.objects.count() == 2


@pytest.mark.django_db
def test_an_admitted_machine_becomes_no_new_installation_by_mistake() -> None:
    """S-13: its own media workers would become strangers to it."""
    first = admission.label()
    with pytest.raises(CommandError, match="is not a copy"):
        call_command("installation", "new")
    assert admission.label() == first
    call_command("installation", "new", "--force")
    assert admission.label() != first


@pytest.mark.django_db
def test_a_new_installation_gives_up_the_media_workers_of_the_original(settings: Any) -> None:
    """S-13: it neither stops nor replaces them, and places nothing before a person opens a node."""
    first = admission.label()
    node = Node.objects.create(name="n", address="unix:///n", media_dir="/m", state="up", process_home="there")
    now = database_now()
    workload = workloads.want("channel:1", node=node, program="capture", spec={}, secret={}, now=now)
    settings.INSTALLATION_KEY = "another"

    call_command("installation", "new")

    assert admission.label() != first
    workload.refresh_from_db()
    node.refresh_from_db()
    assert (workload.state, workload.is_wanted, workload.secrets_sealed) == ("exited", False, "")
    assert workload.removed_at
    assert (node.is_draining, node.process_home) == (True, "")
    assert "the database was copied" in workload.events.last().note


@pytest.mark.django_db
def test_what_a_person_asks_of_a_copy_is_refused_with_the_reason(settings: Any) -> None:
    """S-13."""
    admission.label()
    node = Node.objects.create(name="n", address="unix:///n", media_dir="/m", state="up")
    settings.INSTALLATION_KEY = "another"
    with pytest.raises(placement.NoPlace, match="has not been admitted"):
        placement.choose(placement.Needs("booking:1"), database_now())
    outcome = node_controls.check(node, by="boss")
    assert "has not been admitted" in outcome.text
    node.refresh_from_db()
    assert node.state == Node.State.UP


def sweep(term: Term, node: Node) -> int:
    """A check of the node, as the loop makes it; returns how many orphans it found."""
    check_node(term, node, own_label(), database_now())
    assert pools.wait_idle(60)
    return len(term.memory(Sightings).first_seen)


def test_a_copy_can_read_but_not_change_what_runs(process_node: Node, settings: Any) -> None:
    """S-13: with everything that is in the database, tokens and sealing keys included."""
    workload = run_workload(process_node)
    orphan = launch_named(process_node, f"airlock-test-{uuid.uuid4().hex[:8]}")
    runtime_for(process_node).start(orphan)
    settings.INSTALLATION_KEY = "another"
    runtime = runtime_for(process_node)

    assert fetch_status(workload).owner == workload.owner
    assert sweep(Term(), process_node) == 0
    for call in (runtime.stop, runtime.remove):
        with pytest.raises(MayNotAct):
            call(workload.name)
    with pytest.raises(WorkerRefused, match="has not been admitted"):
        tell(workload, Stop(), WorkerStatus)
    workloads.unwant(workload.owner, now=database_now(), by="boss")
    reconcile.reconcile(workload.pk)

    assert status_of(process_node, workload.name) is Status.RUNNING
    assert status_of(process_node, orphan.name) is Status.RUNNING
    call_command("installation", "adopt")  # so that the fixture can end them


def test_a_scheduler_with_a_copy_does_not_lead_until_a_person_decides(
    process_node: Node, scheduler: Any, tmp_path: Any
) -> None:
    """S-13: it ends nothing, says why, and goes on by itself once it was admitted."""
    orphan = launch_named(process_node, f"airlock-test-{uuid.uuid4().hex[:8]}")
    runtime_for(process_node).start(orphan)
    copy = scheduler(**OTHER)
    alert = wait_until(lambda: Alert.objects.filter(key__startswith="not_admitted:").first(), 20, "an alert says why")

    assert "manage.py installation new" in alert.text
    assert copy.poll() is None
    status = read_status()
    assert (status.is_locked, status.standbys) == (False, 0)
    printed = manage("scheduler_status", **OTHER)
    assert printed.returncode == 1
    assert "A machine may not lead" in printed.stdout
    once = manage("runscheduler", "--once", **OTHER)
    assert "has not been admitted" in once.stderr
    assert status_of(process_node, orphan.name) is Status.RUNNING

    assert manage("installation", "adopt", **OTHER).returncode == 0
    wait_until(lambda: read_status().is_locked, 20, "the scheduler leads")
    wait_until(lambda: status_of(process_node, orphan.name) is None, 30, "the orphan is swept")
    alert.refresh_from_db()
    assert alert.state == Alert.State.RESOLVED


def test_a_copy_that_became_a_new_installation_leaves_the_original_alone(
    process_node: Node, scheduler: Any, settings: Any
) -> None:
    """S-13: a real scheduler sweeps the node of a media worker that belongs to the original."""
    workload = run_workload(process_node)
    original = Installation.current().identity
    assert manage("installation", "new", **OTHER).returncode == 0
    settings.INSTALLATION_KEY = OTHER["INSTALLATION_KEY"]
    process = scheduler()
    wait_until(lambda: read_status().is_locked, 20, "the copy's scheduler leads")
    orphan = launch_named(process_node, f"airlock-test-{uuid.uuid4().hex[:8]}")
    runtime_for(process_node).start(orphan)
    wait_until(lambda: status_of(process_node, orphan.name) is None, 30, "it sweeps the node")

    assert status_of(process_node, workload.name) is Status.RUNNING
    process.terminate()
    assert process.wait(60) == 0
    Installation.objects.update(identity=original)  # so that the fixture can end it


def test_a_job_worker_with_a_copy_takes_no_runs(transactional_db: Any, tmp_path: Any) -> None:
    """S-13: the queued runs of the original would deliver and delete a second time."""
    admission.label()
    log = tmp_path / "job_worker.log"
    process = start_manage("runworker", log=log, **OTHER)
    try:
        wait_until(lambda: "has not been admitted" in log.read_text(), 20, "it says why it waits")
        assert not JobWorker.objects.exists()
        assert manage("installation", "adopt", **OTHER).returncode == 0
        wait_until(lambda: JobWorker.objects.exists(), 20, "it works")
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.django_db(transaction=True)  # orphans are ended on other threads, which see what is committed
def test_two_installations_on_one_node_never_touch_each_other(any_node: Any) -> None:
    """S-13: neither by a sweep, nor by name."""
    name = f"airlock-test-{uuid.uuid4().hex[:8]}"
    launch = launch_named(any_node, name)
    runtime_for(any_node).start(launch)
    first = Installation.current().identity
    Installation.objects.update(identity=uuid.uuid4())

    other = runtime_for(any_node)
    assert other.list_ours() == []
    for _ in range(3):
        assert sweep(Term(), any_node) == 0
    same_name = Launch(name, launch_named(any_node, name).identity, "capture", launch.config)
    for call in (lambda: other.start(same_name), lambda: other.stop(name, force=True), lambda: other.remove(name)):
        with pytest.raises(NameTaken):
            call()
    assert status_of(any_node, name) is Status.RUNNING

    Installation.objects.update(identity=first)
    term = Term()
    wait_until(lambda: sweep(term, any_node) == 0, 40, "its own installation sweeps it")
    assert status_of(any_node, name) is None
    pools.wait_idle(5)
