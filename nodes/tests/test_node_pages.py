"""Actions on several nodes in the admin list: one message with all results, and one audit entry per node."""

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
    """This machine, and a node whose engine does not exist."""
    first = Node.objects.create(name="a", address="process", media_dir=str(tmp_path))
    return first, Node.objects.create(name="b", address=f"unix://{tmp_path}/no-engine.sock", media_dir="/srv/media")


def act(client: Client, action: str, *rows: Node) -> str:
    data = {"action": f"{action}_selected", "_selected_action": [row.pk for row in rows]}
    return client.post(reverse("admin:nodes_node_changelist"), data, follow=True).content.decode()


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_draining_several_nodes_names_those_already_draining(admin_user: User, nodes: tuple[Node, Node]) -> None:
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


def test_a_node_that_fails_its_check_is_named_with_the_error(admin_user: User, nodes: tuple[Node, Node]) -> None:
    page = act(client_of(admin_user), "check", *nodes)

    assert "1 fine, 1 to check (b: " in page


def test_an_engineer_may_not_drain_nodes(make_member: Any, project: Any, nodes: tuple[Node, Node]) -> None:
    """S-01."""
    act(client_of(make_member(project, "engineer")), "drain", *nodes)

    assert not Node.objects.filter(is_draining=True).exists()
    assert not AuditEntry.objects.exists()
