"""Placement: which node is chosen, and the reasons if none is."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from nodes.machines.placement import Needs, NoPlace, choose
from nodes.machines.ports import port_of, reserve
from nodes.models import Node, Workload
from nodes.workloads import want

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def make(name: str, **fields: Any) -> Node:
    defaults = {"address": f"unix:///{name}.sock", "media_dir": "/media", "state": "up", "free_bytes": 10**12}
    return Node.objects.create(name=name, **{**defaults, **fields})


def busy(node: Node, count: int, start: int = 0) -> None:
    for number in range(count):
        Workload.objects.create(
            owner=f"x:{node.name}{number + start}",
            generation=1,
            node=node,
            name=f"{node.name}-{number + start}",
            program="capture",
            control_port=9600 + number + start,
            state="running",
            created_at=timezone.now(),
        )


def refusal(needs: Needs) -> str:
    with pytest.raises(NoPlace) as refused:
        choose(needs, timezone.now())
    return str(refused.value)


def test_the_node_with_the_fewest_workloads_is_chosen() -> None:
    first, second = make("a"), make("b")
    busy(first, 2)
    busy(second, 1)

    assert choose(Needs(owner="x:1"), timezone.now()) == second


@pytest.mark.parametrize("what", ["node", "workload"])
def test_a_node_that_may_be_gone_is_chosen_only_if_there_is_no_other(what: str) -> None:
    """P-05: when many machines fail at once, a channel must not move from one to the next."""
    silent = make("a", missed_checks=int(what == "node"))
    busy(silent, 1)
    Workload.objects.update(missed_looks=int(what == "workload"))
    assert choose(Needs(owner="x:1"), timezone.now()) == silent
    other = make("b")
    busy(other, 3)
    assert choose(Needs(owner="x:1"), timezone.now()) == other


def test_an_avoided_node_is_chosen_only_if_there_is_no_other() -> None:
    first = make("a")
    needs = Needs(owner="x:1", avoid=frozenset([first.pk]))
    assert choose(needs, timezone.now()) == first
    second = make("b")
    busy(second, 3)
    assert choose(needs, timezone.now()) == second


def test_without_any_node_the_refusal_says_so() -> None:
    assert refusal(Needs(owner="x:1")) == "No node is set up."


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"is_draining": True}, "a: is being drained"),
        ({"state": "down", "last_error": "no route"}, "a: is down (no route)"),
        ({"state": "unknown"}, "a: has not answered yet"),
        ({"free_bytes": 1024 * 1024}, "a: has only 1 MB free"),
        ({"max_workloads": 0}, "a: already runs 0 of 0 workloads"),
    ],
)
def test_a_refused_node_is_named_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    make("a", **fields)
    assert refusal(Needs(owner="x:1")) == reason


def test_a_node_must_have_all_labels() -> None:
    make("a", labels="studio")
    assert refusal(Needs(owner="x:1", labels=frozenset(["studio", "decklink"]))) == "a: lacks the label decklink"
    fitting = make("b", labels="decklink studio")
    assert choose(Needs(owner="x:1", labels=frozenset(["studio", "decklink"])), timezone.now()) == fitting


def test_a_held_port_excludes_a_node_for_others_but_not_for_its_holder() -> None:
    """R-14."""
    now = timezone.now()
    node = make("a")
    reserve(port_of(node, "udp", 9000), owner="x:1", holder="Cam 1", starts_at=now, ends_at=now + timedelta(hours=1))

    needs = {"ports": (("udp", 9000),), "until": now + timedelta(hours=2)}
    assert "UDP port 9000 on a is held by Cam 1" in refusal(Needs(owner="x:2", **needs))
    assert choose(Needs(owner="x:1", **needs), now) == node


@pytest.mark.django_db(transaction=True)
def test_workloads_placed_at_the_same_time_do_not_exceed_the_limit_of_a_node() -> None:
    """P-05, R-04: many are placed in one turn; one that finds the node full gets NodeFull and chooses again."""
    node = make("a", max_workloads=3)

    def place(number: int) -> bool:
        try:
            want(f"x:{number}", node=node, program="capture", spec={}, secret={}, now=timezone.now())
        except NoPlace as refused:
            assert "already runs 3 of 3 workloads" in str(refused)  # noqa: PT017
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        placed = list(pool.map(place, range(8)))

    assert sum(placed) == Workload.objects.live().count() == 3


def test_a_process_node_of_another_machine_is_not_chosen() -> None:
    """R-11: this machine could neither start the workload nor see that it does not start."""
    make("far", address="process", process_home="another-machine:/data/run")
    assert "is managed by the scheduler of another machine" in refusal(Needs("x:1"))
