"""Which machines act for this installation (S-13). With a copied database alone, nobody touches the original's nodes.

Each machine has a key that is not in the database: INSTALLATION_KEY, or a file of its data folder. The database has the
digests of the keys that were admitted. The first machine that uses a new database is admitted by itself, all others by
`manage.py installation adopt`. A machine that is not admitted gets no label for containers, so it cannot start, stop or
remove one; its scheduler does not lead and its job worker takes no runs.
"""

import hashlib
import logging
import socket
import threading
from datetime import datetime

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import Exists

from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.database.locks import Queue, queue_for
from station.models import AdmittedMachine, Alert, Installation
from station.models.alert import Severity

logger = logging.getLogger(__name__)

ASK_SECONDS = 3.0
ALERT = "not_admitted"


class NotAdmitted(Exception):
    """This machine does not act for the installation in its database; the text says what to do."""


def label() -> str:
    """The installation's id, which labels every container. Raises NotAdmitted."""
    own = AdmittedMachine.objects.filter(digest=own_digest())
    row = Installation.objects.annotate(is_admitted=Exists(own)).first() or Installation.current()
    if not getattr(row, "is_admitted", False) and not _admit_first():
        raise NotAdmitted(explanation(row))
    return row.identity.hex


def is_admitted() -> bool:
    """Only a look: it admits nobody, not even the first machine."""
    return AdmittedMachine.objects.filter(digest=own_digest()).exists()


def own_digest() -> str:
    return hashlib.sha256(settings.INSTALLATION_KEY.encode()).hexdigest()


def own_name() -> str:
    return f"{socket.gethostname()}, {settings.DATA_DIR}"[:300]


def explanation(row: Installation) -> str:
    known = "; ".join(machine.name for machine in AdmittedMachine.objects.all())
    if not known:
        return f"No machine acts for installation {row.short} yet. The first scheduler, web or job worker is admitted."
    return (
        f"This machine ({own_name()}) has not been admitted to installation {row.short}, so it starts and stops "
        f"nothing on any node. Admitted: {known}. If its database is a copy of theirs, run here: manage.py "
        "installation new. If it belongs to them, give it the same INSTALLATION_KEY, or run here: manage.py "
        "installation adopt."
    )


def _admit_first() -> bool:
    """Admit this machine if it is the first one of this database."""
    if AdmittedMachine.objects.exists():
        return False
    with transaction.atomic():
        queue_for(Queue.INSTALLATION, 1)  # two machines may start at the same time
        if not AdmittedMachine.objects.exists():
            _admit(database_now())
    return AdmittedMachine.objects.filter(digest=own_digest()).exists()


def _admit(now: datetime) -> None:
    AdmittedMachine.objects.get_or_create(digest=own_digest(), defaults={"name": own_name(), "admitted_at": now})
    logger.info("This machine is admitted. name=%s", own_name())


def adopt(now: datetime) -> Installation:
    """This machine belongs to the installation of its database."""
    with transaction.atomic():
        _admit(now)
        resolve_alert(_alert_key(), now=now, note="the machine was admitted")
        return Installation.current()


def become_new(now: datetime) -> Installation:
    """The database is a copy: give it an identity of its own, with this machine as its only one."""
    with transaction.atomic():
        Installation.objects.filter(pk=1).delete()
        AdmittedMachine.objects.all().delete()
        _admit(now)
        for key in Alert.objects.filter(key__startswith=f"{ALERT}:").values_list("key", flat=True).distinct():
            resolve_alert(key, now=now, note="this is a new installation")
        return Installation.current()


def waiting_machines() -> list[str]:
    """What the open alerts say about machines that ask to be admitted."""
    waiting = Alert.objects.filter(key__startswith=f"{ALERT}:").exclude(state=Alert.State.RESOLVED)
    return list(waiting.values_list("text", flat=True))


def wait_until_admitted(stop: threading.Event) -> bool:
    """Wait, and say once why. False if asked to stop first."""
    is_said = False
    while not stop.is_set():
        close_old_connections()
        try:
            label()
            return True
        except NotAdmitted as refusal:
            if not is_said:
                _report(str(refusal), database_now())
                is_said = True
        stop.wait(ASK_SECONDS)
    return False


def _report(text: str, now: datetime) -> None:
    logger.error("%s", text)
    title = f"{socket.gethostname()} uses this database and has not been admitted"
    raise_alert(_alert_key(), title, now=now, severity=Severity.CRITICAL, text=text)


def _alert_key() -> str:
    return f"{ALERT}:{own_digest()[:12]}"
