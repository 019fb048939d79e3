"""Actions of staff on nodes: check, drain, undrain, give up, delete."""

from datetime import datetime, timedelta

from nodes.machines import given_up, health
from nodes.models import Node, Workload
from nodes.runtimes import here, installation
from nodes.runtimes.base import MayNotAct
from station.actions import Outcome, action, done, nothing, refused
from station.alerts import resolve_alert
from station.clock import database_now

CHANGE = "nodes.change_node"
# A node that answered this recently is not gone.
GONE_AFTER = timedelta(seconds=60)


def forget_alerts(node: Node) -> None:
    for kind in ("node_down", "node_disk", "node_clock"):
        resolve_alert(f"{kind}:{node.pk}", now=database_now(), note="the node was deleted")


@action("check", "Check now", permission=CHANGE)
def check(node: Node, *, now: datetime, by: str) -> Outcome:
    """Ask its engine at once instead of at the next turn."""
    try:
        installation()
    except MayNotAct as refusal:
        return refused(str(refusal))
    if node.is_elsewhere(here()):
        return refused(f"Only the scheduler of {node.process_home} can check {node}.", reason="managed elsewhere")
    answered = health.check(node)
    node.refresh_from_db()
    if answered and not node.last_error:
        return done(f"{node} answers.")
    reason = node.last_error or "no answer"
    return done(f"{node}: {reason}", reason=reason, needs_attention=True)


@action("drain", "Drain: no new work", permission=CHANGE)
def drain(node: Node, *, now: datetime, by: str) -> Outcome:
    """No new work; what runs there continues."""
    if not _switch(node, True, "draining", now, by):
        return nothing(f"{node} is already draining.", reason="already draining")
    return done(f"{node} gets no new work.")


@action("undrain", "Open for work again", permission=CHANGE)
def undrain(node: Node, *, now: datetime, by: str) -> Outcome:
    if not _switch(node, False, "open for work", now, by):
        return nothing(f"{node} was not drained.", reason="not drained")
    return done(f"{node} is open for work.")


@action("give_up", "Give up what ran there", permission=CHANGE)
def give_up(node: Node, *, now: datetime, by: str) -> Outcome:
    """The machine is gone for good, or has another address, or a process node moves to another machine."""
    if node.last_seen_at and node.last_seen_at > now - GONE_AFTER:
        return refused(
            f"{node} answered less than a minute ago. Stop what runs there, or drain it.", reason="it answers"
        )
    note = f"given up by {by}: its machine is gone"
    rows = given_up.give_up(Workload.objects.filter(node=node), "given_up", note, now=now, by=by)
    is_freed = Node.objects.filter(pk=node.pk).exclude(process_home="").update(process_home="")
    if not rows and not is_freed:
        return nothing(f"Nothing is known to run on {node}.", reason="nothing there")
    names = ", ".join(row.owner for row in rows) or "nothing"
    node.remark(f"gave up {names}", now=now, by=by)
    return done(
        f"{node}: gave up {names}. Make sure that the machine is off: what still runs there goes on.",
        details={"workloads": [row.name for row in rows]},
    )


def _switch(node: Node, is_draining: bool, note: str, now: datetime, by: str) -> bool:
    """Flip it once, with its event; False if it was so already."""
    if not Node.objects.filter(pk=node.pk, is_draining=not is_draining).update(is_draining=is_draining):
        return False
    node.is_draining = is_draining
    node.remark(note, now=now, by=by)
    return True
