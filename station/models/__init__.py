"""Projects and members, alerts and their delivery, the audit trail, this installation's identity."""

from station.models.alert import Alert, AlertDelivery, AlertEvent, AlertRoute
from station.models.audit import AuditEntry
from station.models.installation import AdmittedMachine, Installation
from station.models.project import Membership, Project
from station.models.token import ApiToken

__all__ = [
    "AdmittedMachine",
    "Alert",
    "AlertDelivery",
    "AlertEvent",
    "AlertRoute",
    "ApiToken",
    "AuditEntry",
    "Installation",
    "Membership",
    "Project",
]
