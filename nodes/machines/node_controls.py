"""Actions of staff on nodes: check, drain, undrain, delete."""

from datetime import datetime

from nodes.machines import health
from nodes.models import Node
from station.actions import Outcome, action, done, nothing
from station.alerts import resolve_alert
from station.clock import database_now

CHANGE = "nodes.change_node"


def forget_alerts(node: Node) -> None:
    for kind in ("node_down", "node_disk"):
        resolve_alert(f"{kind}:{node.pk}", now=database_now(), note="the node was deleted")


@action("check", "Check now", permission=CHANGE)
def check(node: Node, *, now: datetime, by: str) -> Outcome:
    """Ask its engine at once instead of at the next turn."""
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


def _switch(node: Node, is_draining: bool, note: str, now: datetime, by: str) -> bool:
    """Flip it once, with its event; False if it was so already."""
    if not Node.objects.filter(pk=node.pk, is_draining=not is_draining).update(is_draining=is_draining):
        return False
    node.is_draining = is_draining
    node.remark(note, now=now, by=by)
    return True
