"""Who leads: one row, written on the leader's own connection only (scheduling/leader/leader.py)."""

from django.db import models


class Leadership(models.Model):
    """The epoch grows by one with each new leader; what an older one still does is known by it and ignored."""

    is_station_wide = True

    epoch = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=200, blank=True)
    taken_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "leadership"

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.holder or 'nobody'}"
