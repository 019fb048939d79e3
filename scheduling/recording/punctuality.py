"""Punctuality figures: how late the starts of each day were, from the times stored with each booking (R-19)."""

from dataclasses import dataclass
from datetime import date, datetime

from django.conf import settings
from django.db import connection

# Days are in house time. Starts are measured from the opening of the padded window, pictures from the planned start.
SQL = """
SELECT (b.opens_at AT TIME ZONE %(zone)s)::date AS day,
    count(*),
    percentile_cont(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP (ORDER BY b.late_by_seconds),
    percentile_cont(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP
        (ORDER BY EXTRACT(EPOCH FROM b.first_frame_at - b.opens_at)::float),
    count(*) FILTER (WHERE b.first_frame_at > b.starts_at + interval '1 second'),
    max(EXTRACT(EPOCH FROM b.first_frame_at - b.starts_at)::float),
    count(*) FILTER (WHERE b.first_frame_at IS NULL)
FROM scheduling_booking b JOIN scheduling_recorder r ON r.id = b.recorder_id
WHERE b.dispatched_at IS NOT NULL AND b.opens_at >= %(since)s AND NOT b.is_manual
    AND (%(everything)s OR r.project_id = ANY(%(projects)s))
GROUP BY day ORDER BY day DESC
"""


@dataclass(frozen=True)
class Percentiles:
    p50: float
    p95: float
    p99: float
    worst: float


@dataclass(frozen=True)
class Day:
    """`dispatch`: from the opening of the window to the start; `picture`: from the same to the first frame."""

    day: date
    count: int
    dispatch: Percentiles | None
    picture: Percentiles | None
    late_pictures: int
    worst_picture_seconds: float | None
    without_picture: int


def days(since: datetime, projects: list[int] | None) -> list[Day]:
    """One entry per day since then, newest first, of these projects (None: of all)."""
    values = {"zone": settings.HOUSE_TIME_ZONE, "since": since}
    with connection.cursor() as cursor:
        cursor.execute(SQL, {**values, "everything": projects is None, "projects": projects or []})
        rows = cursor.fetchall()
    return [
        Day(day, count, _percentiles(dispatch), _percentiles(picture), late, worst, without)
        for day, count, dispatch, picture, late, worst, without in rows
    ]


def _percentiles(values: list[float | None] | None) -> Percentiles | None:
    if not values or any(value is None for value in values):
        return None
    return Percentiles(*(float(value or 0.0) for value in values))
