"""Editing a node: what lives there is neither lost nor doubled, and a save writes only what the person changed."""

import threading
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from nodes import workloads
from nodes.machines import node_controls
from nodes.models import Node, Workload
from station.clock import database_now
from station.models import AuditEntry
from testing.waiting import wait_until

State = Workload.State


class Inputs(HTMLParser):
    """The values that a browser would send with a form of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.data: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, kind = given.get("name"), given.get("type")
        if tag != "input" or not name or name.startswith("_") or (kind == "checkbox" and "checked" not in given):
            return
        self.data[name] = given.get("value") or ("on" if kind == "checkbox" else "")


@pytest.fixture
def boss(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def node(db: Any) -> Node:
    return Node.objects.create(name="far", address="tcp://192.0.2.1:2376", media_dir="/m", state="up")


def open_page(client: Client, node: Node) -> dict[str, str]:
    page = client.get(reverse("admin:nodes_node_change", args=[node.pk])).content.decode()
    data = Inputs(page).data
    assert data["name"] == node.name
    return data


def save(client: Client, node: Node, data: dict[str, str], **changes: str) -> str:
    url = reverse("admin:nodes_node_change", args=[node.pk])
    return client.post(url, {**data, **changes}, follow=True).content.decode()


def want(node: Node, owner: str = "channel:1") -> Workload:
    return workloads.want(owner, node=node, program="capture", spec={}, secret={}, now=database_now())


def test_saving_labels_touches_nothing_else(boss: Client, node: Node) -> None:
    """N-07: not even what the scheduler or another person wrote since the page was opened."""
    data = open_page(boss, node)
    written = {
        "process_home": "machine:/data/run", "state": Node.State.DOWN, "missed_checks": 4,
        "last_error": "no answer", "is_draining": True, "max_workloads": 3, "free_bytes": 77,
    }  # fmt: skip
    Node.objects.filter(pk=node.pk).update(**written)

    assert "was changed successfully" in save(boss, node, data, labels="studio-a")

    node.refresh_from_db()
    assert node.labels == "studio-a"
    assert {name: getattr(node, name) for name in written} == written
    [entry] = AuditEntry.objects.all()
    assert (entry.before, entry.after) == ({"labels": ""}, {"labels": "studio-a"})


@pytest.mark.parametrize("state", [State.REQUESTED, State.RUNNING, State.LOST, State.EXITED])
@pytest.mark.parametrize("field", ["name", "address"])
def test_where_a_node_is_cannot_be_changed_while_something_lives_there(
    boss: Client, node: Node, field: str, state: str
) -> None:
    """N-07: also if it has ended, but its container is not removed yet. The refusal names it and the way out."""
    workload = want(node)
    Workload.objects.filter(pk=workload.pk).update(state=state)
    changed = {"name": "near", "address": "process"}[field]

    page = save(boss, node, open_page(boss, node), **{field: changed, "labels": "studio-a"})

    assert f"while media workers are on this node: channel:1 ({state})" in page
    assert "drain the node" in page
    node.refresh_from_db()
    assert (node.name, node.address, node.labels) == ("far", "tcp://192.0.2.1:2376", "")


def test_other_fields_can_be_changed_while_something_lives_there(boss: Client, node: Node) -> None:
    """A wrong control host is corrected while channels are on air."""
    want(node)
    save(boss, node, open_page(boss, node), control_host="192.0.2.7", labels="studio-a")
    node.refresh_from_db()
    assert (node.control_host, node.labels) == ("192.0.2.7", "studio-a")


def test_a_node_without_media_workers_can_move(boss: Client, node: Node) -> None:
    """N-07: the next check finds out who is at the new address."""
    workload = want(node)
    Workload.objects.filter(pk=workload.pk).update(state=State.EXITED, removed_at=database_now())
    Node.objects.filter(pk=node.pk).update(process_home="old")
    save(boss, node, open_page(boss, node), address="tcp://192.0.2.2:2376")
    node.refresh_from_db()
    assert (node.address, node.process_home) == ("tcp://192.0.2.2:2376", "")


def test_renaming_a_node_with_keys_says_which_folder_to_rename(
    boss: Client, node: Node, settings: Any, tmp_path: Path
) -> None:
    """N-07: its keys are found by its name."""
    settings.NODE_KEYS_DIR = tmp_path
    (tmp_path / "far").mkdir()
    page = save(boss, node, open_page(boss, node), name="near")
    assert f"{tmp_path / 'far'} to {tmp_path / 'near'}" in page


@pytest.mark.django_db(transaction=True)
def test_a_start_between_the_check_and_the_save_waits_for_the_save(
    boss: Client, transactional_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-07: a lost race. The start then uses the new address."""
    node = Node.objects.create(name="far", address="tcp://192.0.2.1:2376", media_dir="/m", state="up")
    data = open_page(boss, node)
    seen: list[str] = []
    original = Node.save

    def start() -> None:
        try:
            workload = want(Node.objects.get(pk=node.pk))
            seen.append(Workload.objects.select_related("node").get(pk=workload.pk).node.address)
        finally:
            connection.close()

    starter = threading.Thread(target=start)

    def save_late(self: Node, **kwargs: Any) -> None:
        starter.start()
        wait_until(_somebody_queues, 20, "the start queues for the node")
        original(self, **kwargs)

    monkeypatch.setattr(Node, "save", save_late)
    save(boss, node, data, address="tcp://192.0.2.2:2376")
    starter.join(20)

    assert seen == ["tcp://192.0.2.2:2376"]


def _somebody_queues() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_start_before_the_check_refuses_the_save(boss: Client, transactional_db: Any) -> None:
    """N-07: the start has not committed when the form is saved."""
    node = Node.objects.create(name="far", address="tcp://192.0.2.1:2376", media_dir="/m", state="up")
    data = open_page(boss, node)
    pages: list[str] = []

    def press_save() -> None:
        try:
            pages.append(save(boss, node, data, address="tcp://192.0.2.2:2376"))
        finally:
            connection.close()

    saver = threading.Thread(target=press_save)
    with transaction.atomic():
        want(node)
        saver.start()
        wait_until(_somebody_queues, 20, "the save queues for the node")
    saver.join(20)

    assert "channel:1 (requested)" in pages[0]
    node.refresh_from_db()
    assert node.address == "tcp://192.0.2.1:2376"


def test_what_ran_on_a_machine_that_is_gone_can_be_given_up(boss: Client, node: Node) -> None:
    """N-07: the way out. Then the address can be changed, and owners get a new generation."""
    workload = want(node)
    Workload.objects.filter(pk=workload.pk).update(state=State.RUNNING)
    Node.objects.filter(pk=node.pk).update(last_seen_at=database_now())
    node.refresh_from_db()
    assert "answered less than a minute ago" in node_controls.give_up(node, by="boss").text
    gone = database_now() - timedelta(minutes=5)
    Node.objects.filter(pk=node.pk).update(last_seen_at=gone, process_home="there")
    node.refresh_from_db()

    outcome = node_controls.give_up(node, by="boss")

    assert outcome.is_good
    assert "gave up channel:1" in outcome.text
    workload.refresh_from_db()
    assert (workload.state, workload.exit_reason) == (State.EXITED, "given_up")
    node.refresh_from_db()
    assert node.process_home == ""
    assert want(node).generation == 2
    Workload.objects.update(removed_at=database_now())
    save(boss, node, open_page(boss, node), address="tcp://192.0.2.2:2376")
    node.refresh_from_db()
    assert node.address == "tcp://192.0.2.2:2376"
