"""The calendar link of a project: whoever has it may read what is booked, and nothing else."""

from django.db import models


class CalendarFeed(models.Model):
    project = models.OneToOneField("station.Project", on_delete=models.CASCADE, related_name="calendar_feed")
    # Only a hash: the link is shown once, when it is made.
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    created_by = models.CharField(max_length=150, editable=False)

    def __str__(self) -> str:
        return f"Calendar of {self.project}"
