"""Actions of staff on nodes: drain, undrain, delete."""

from nodes.models import Node
from station import audit
from station.alerts import resolve_alert
from station.clock import database_now


def forget_alerts(node: Node) -> None:
    for kind in ("node_down", "node_disk"):
        resolve_alert(f"{kind}:{node.pk}", now=database_now(), note="the node was deleted")


def set_draining(node: Node, is_draining: bool, by: str) -> tuple[bool, str]:
    """Set or clear draining once, with an event and an audit entry."""
    if not Node.objects.filter(pk=node.pk, is_draining=not is_draining).update(is_draining=is_draining):
        return False, "already draining" if is_draining else "not draining"
    node.remark("draining" if is_draining else "open for work", now=database_now(), by=by)
    audit.record(by, "drain" if is_draining else "undrain", node)
    return True, ""
