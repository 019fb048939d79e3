"""The list of nodes: what is done to many is reported in one sentence, and each is on record as it went."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from nodes.models import Node
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Node, Node]:
    """This machine, and one whose engine is not there."""
    first = Node.objects.create(name="a", address="process", media_dir=str(tmp_path))
    return first, Node.objects.create(name="b", address=f"unix://{tmp_path}/no-engine.sock", media_dir="/srv/media")


def act(client: Client, action: str, *rows: Node) -> str:
    data = {"action": f"{action}_selected", "_selected_action": [row.pk for row in rows]}
    return client.post(reverse("admin:nodes_node_changelist"), data, follow=True).content.decode()


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_draining_many_tells_which_were_draining_already(admin_user: User, nodes: tuple[Node, Node]) -> None:
    boss = client_of(admin_user)
    first, second = nodes

    assert "1 draining" in act(boss, "drain", first)
    assert "1 draining, 1 skipped (a: already draining)" in act(boss, "drain", first, second)
    assert "2 open" in act(boss, "undrain", first, second)

    rows = AuditEntry.objects.order_by("id").values_list("what", "subject_name", "result")
    assert list(rows) == [
        ("drain", "a", "done"),
        ("drain", "a", "nothing"),
        ("drain", "b", "done"),
        ("undrain", "a", "done"),
        ("undrain", "b", "done"),
    ]


def test_a_node_in_trouble_is_named_with_its_trouble(admin_user: User, nodes: tuple[Node, Node]) -> None:
    page = act(client_of(admin_user), "check", *nodes)

    assert "1 fine, 1 to check (b: " in page


def test_an_engineer_looks_at_nodes_and_drains_none(make_member: Any, project: Any, nodes: tuple[Node, Node]) -> None:
    """S-01."""
    act(client_of(make_member(project, "engineer")), "drain", *nodes)

    assert not Node.objects.filter(is_draining=True).exists()
    assert not AuditEntry.objects.exists()
