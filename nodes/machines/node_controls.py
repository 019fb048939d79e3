"""What people do to nodes by hand: drain, open again, take away."""

from nodes.models import Node
from station import audit
from station.alerts import resolve_alert
from station.clock import database_now


def forget_alerts(node: Node) -> None:
    for trouble in ("node_down", "node_disk"):
        resolve_alert(f"{trouble}:{node.pk}", now=database_now(), note="the node was deleted")


def set_draining(node: Node, is_draining: bool, by: str) -> tuple[bool, str]:
    """Flip the switch once, with its event and its audit entry."""
    if not Node.objects.filter(pk=node.pk, is_draining=not is_draining).update(is_draining=is_draining):
        return False, "already so"
    node.remark("draining" if is_draining else "open for work", now=database_now(), by=by)
    audit.record(by, "drain" if is_draining else "undrain", node)
    return True, ""
