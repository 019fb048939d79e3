"""One alert for many troubles of one cause, so that an outage is one message and not hundreds (U-14)."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from station.alerts.raising import raise_alert
from station.models import Alert, Project
from station.models.alert import Severity

# So many of one cause within TOGETHER are one alert; fewer have an alert each.
MANY = 5
TOGETHER = timedelta(minutes=10)
# The message waits this long: a backlog is worked off in batches, and the message is to say how many there were.
WAIT = timedelta(seconds=30)
NAMED = 20


@dataclass(frozen=True)
class Case:
    """One trouble: the arguments of `raise_alert` if it is not summarised."""

    key: str
    title: str
    text: str = ""
    subject: str = ""
    project: Project | None = None

    @property
    def line(self) -> str:
        return " ".join((f"{self.title}: {self.text}" if self.text else self.title).split())


def raise_together(
    cause: str, cases: Iterable[Case], *, now: datetime, severity: Severity, many: str, text: str = ""
) -> None:
    """Raise an alert for each case, or one for each project if there are many.

    `cause` is the first word of the keys. `many` is the title of the summary, with {count}; `text` is its first line.
    Calls within ten minutes of each other add to the same summary.
    """
    by_project: dict[Project | None, list[Case]] = defaultdict(list)
    for case in cases:
        by_project[case.project].append(case)
    for project, group in by_project.items():
        recent = Alert.objects.filter(key__startswith=f"{cause}:", raised_at__gt=now - TOGETHER, project=project)
        summary = _recent_summary(cause, project, now)
        if summary is None and len(group) + recent.count() < MANY:
            for case in group:
                raise_alert(
                    case.key,
                    case.title,
                    now=now,
                    severity=severity,
                    text=case.text,
                    subject=case.subject,
                    project=project,
                )
        else:
            _add(summary, _summary_key(cause, project, now), group, now, severity, many, text)


def _add(
    summary: Alert | None, key: str, group: list[Case], now: datetime, severity: Severity, many: str, text: str
) -> None:
    count = len(group) + (summary.times_seen if summary else 0)
    lines = _case_lines(summary.text, text) if summary else []
    lines = [*lines, *(case.line for case in group)][:NAMED]
    with transaction.atomic():
        alert = raise_alert(
            summary.key if summary else key,
            many.format(count=count),
            now=now,
            severity=severity,
            text=_text(text, lines, count),
            project=group[0].project,
            count=len(group),
        )
        if alert.times_seen != count:  # another process added some at the same time
            title, told = many.format(count=alert.times_seen), _text(text, lines, alert.times_seen)
            Alert.objects.filter(pk=alert.pk, times_seen=alert.times_seen).update(title=title, text=told)
        if summary is None:
            alert.deliveries.filter(attempts=0).update(next_attempt_at=now + WAIT)


def _text(first: str, lines: list[str], count: int) -> str:
    more = [f"… and {count - len(lines)} more."] if count > len(lines) else []
    return "\n".join([*([first] if first else []), *lines, *more])


def _case_lines(told: str, first: str) -> list[str]:
    """The lines of the cases in a summary's text."""
    return [line for line in told.splitlines() if line != first and not line.startswith("… and ")]


def _prefix(cause: str, project: Project | None) -> str:
    return f"{cause}:many:{project.pk if project else 0}:"


def _summary_key(cause: str, project: Project | None, now: datetime) -> str:
    """The same for processes that begin a summary at the same time, so that there is one."""
    return f"{_prefix(cause, project)}{now:%Y%m%dT%H}{now.minute // 10}0"


def _recent_summary(cause: str, project: Project | None, now: datetime) -> Alert | None:
    summaries = Alert.objects.filter(key__startswith=_prefix(cause, project), last_seen_at__gt=now - TOGETHER)
    return summaries.exclude(state=Alert.State.RESOLVED).order_by("-raised_at").first()
