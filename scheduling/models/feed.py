"""The secret calendar link of a project. It gives read access to the project's bookings, and to nothing else."""

from django.db import models


class CalendarFeed(models.Model):
    project = models.OneToOneField("station.Project", on_delete=models.CASCADE, related_name="calendar_feed")
    # Only a hash is stored: the link is shown once, when it is created.
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    created_by = models.CharField(max_length=150, editable=False)

    class Meta:
        verbose_name = "calendar link"

    def __str__(self) -> str:
        return f"Calendar of {self.project}"
