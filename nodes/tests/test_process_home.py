"""N-09: who manages a process node, and what its media workers outlive."""

import configparser
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import get_commands
from django.db import connection
from django.test import Client
from django.urls import reverse

from nodes import workloads
from nodes.machines import node_controls
from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from nodes.runtimes import process_home, runtime_for
from nodes.runtimes.process import ProcessIds, _read
from nodes.workloads import node_checks, reconcile
from station.clock import database_now
from station.leader_term import Term
from testing.processes import ROOT, environment, is_alive
from testing.waiting import wait_until

UNITS = ROOT / "deploy" / "systemd"
SPEC = {"source": {"type": "test", "url": "", "size": "160x90"}, "folder": "f", "name": "n", "min_free_bytes": 1}
# In another PID namespace, as in a container on this machine with the same data folder.
IN_CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
if os.geteuid():
    IN_CONTAINER[1:1] = ["--user", "--map-root-user"]


def want(node: Node) -> Workload:
    return workloads.want("channel:1", node=node, program="capture", spec=SPEC, secret={}, now=database_now())


def pid_of(workload: Workload) -> int:
    ids = _read(ProcessIds, process_home.run_dir() / workload.name / "pids.json")
    return ids.worker.pid if ids else 0


@pytest.fixture
def start_scheduler(process_node: Node, tmp_path: Path) -> Iterator[Any]:
    """start_scheduler(*prefix): a scheduler that leads a process group of its own, as under a supervisor."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*prefix: str) -> subprocess.Popen[bytes]:
        command = [*prefix, sys.executable, str(ROOT / "manage.py"), "runscheduler"]
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment(), stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_media_worker_outlives_the_whole_process_group_of_its_scheduler(
    process_node: Node, start_scheduler: Any, number: signal.Signals
) -> None:
    """N-09: supervisors and terminals send signals to the group."""
    process = start_scheduler()
    workload = want(process_node)
    wait_until(lambda: Workload.objects.filter(pk=workload.pk, state="running").exists(), 30, "it runs")
    pid = pid_of(workload)
    assert os.getsid(pid) != os.getsid(process.pid)

    os.killpg(process.pid, number)
    process.wait(60)

    assert is_alive(pid)
    reconcile.reconcile(workload.pk)
    workload.refresh_from_db()
    assert (workload.state, pid_of(workload)) == ("running", pid)


def test_a_scheduler_in_a_container_leaves_the_node_of_its_host_alone(process_node: Node, start_scheduler: Any) -> None:
    """N-09: same machine id, same data folder, other pids: it would see no process and start a second one."""
    workload = want(process_node)
    reconcile.reconcile(workload.pk)
    home = process_node.process_home
    pid = pid_of(workload)

    process = start_scheduler(*IN_CONTAINER)
    wait_until(_somebody_leads, 30, "it leads")
    inside = subprocess.run(
        [*IN_CONTAINER, sys.executable, str(ROOT / "manage.py"), "shell", "-v0", "-c", PRINT_HERE],
        env=environment(), capture_output=True, text=True, check=True, timeout=120, cwd=ROOT,
    )  # fmt: skip

    assert inside.stdout.strip().startswith(f"{home} in container pid:[")
    assert process.poll() is None
    workload.refresh_from_db()
    process_node.refresh_from_db()
    assert (process_node.process_home, workload.state, workload.generation) == (home, "running", 1)
    assert (pid_of(workload), is_alive(pid)) == (pid, True)


PRINT_HERE = "from nodes.runtimes import here; print(here())"


def _somebody_leads() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM scheduling_leadership WHERE released_at IS NULL")
        return bool(cursor.fetchone()[0])


def test_the_next_container_takes_over_when_nothing_runs_any_more(
    process_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-09: a restarted container has another PID namespace. What ran in the last one has ended with it."""
    outside = process_home.here()
    move_to(monkeypatch, "pid:[1]")
    assert process_home.take_home(process_node) is False
    Node.objects.update(process_home="")
    process_node.refresh_from_db()
    assert process_home.take_home(process_node) is True
    process_node.refresh_from_db()
    workload = want(process_node)
    reconcile.reconcile(workload.pk)

    move_to(monkeypatch, "pid:[2]")
    assert runtime_for(process_node).is_here is False  # type: ignore[attr-defined]
    assert node_checks.check_due(Term(), [process_node], database_now()) is None
    process_node.refresh_from_db()
    assert process_node.process_home.endswith("pid:[1]")
    os.kill(pid_of(workload), signal.SIGKILL)
    wait_until(lambda: not any(map(process_home._is_locked, process_home.run_dir().glob("*/lock"))), 20, "it ends")

    node_checks.check_due(Term(), [process_node], database_now())
    pools.wait_idle(10)
    process_node.refresh_from_db()
    assert process_node.process_home == f"{outside} in container pid:[2]"


def move_to(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    monkeypatch.setattr(process_home, "pid_namespace", lambda: namespace)


@pytest.mark.django_db
def test_the_page_says_that_recordings_end_with_the_container(admin_user: User, settings: Any) -> None:
    """N-09."""
    client = Client()
    client.force_login(admin_user)
    home = "machine:/data/run in container pid:[7]"
    node = Node.objects.create(name="n", address="process", media_dir="/m", process_home=home, state="up")
    page = client.get(reverse("admin:nodes_node_change", args=[node.pk])).content.decode()
    assert "Its recordings and channels end with this container" in page

    outcome = node_controls.check(node, by="boss")
    assert "Only the scheduler of" in outcome.text
    node.refresh_from_db()
    assert node.missed_checks == 0


@pytest.mark.parametrize("name", ["airlock-scheduler", "airlock-web", "airlock-worker@"])
def test_the_systemd_units_end_no_media_worker(name: str) -> None:
    """N-09: systemd's defaults end everything in the control group of a service, where media workers are."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    assert unit.read(UNITS / f"{name}.service")
    service = unit["Service"]
    is_job_worker = name == "airlock-worker@"
    assert service["KillMode"] == ("mixed" if is_job_worker else "process")
    assert service["OOMPolicy"] == "continue"
    assert service["Restart"] == "always"
    if not is_job_worker:
        assert service["TasksMax"] == "infinity"
        assert not {"PrivateTmp", "RuntimeDirectory", "MemoryMax", "ExecStopPost"} & set(service)
    command = service["ExecStart"].split()
    assert command[1:3] == ["-m", "gunicorn"] or command[2] in get_commands()
