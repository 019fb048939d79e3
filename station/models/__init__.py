"""Projects and members, alerts and their delivery, the audit trail, this installation's identity."""

from station.models.alert import Alert, AlertDelivery, AlertEvent, AlertRoute
from station.models.audit import AuditEntry
from station.models.installation import Installation
from station.models.project import Membership, Project

__all__ = [
    "Alert",
    "AlertDelivery",
    "AlertEvent",
    "AlertRoute",
    "AuditEntry",
    "Installation",
    "Membership",
    "Project",
]
