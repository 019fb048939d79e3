"""Who led when: one row for each term, written only on the leader's own connection (scheduling/leader/election.py)."""

from django.db import models


class Leadership(models.Model):
    """One term. Each new leader takes the next epoch; writes with an older epoch are refused."""

    is_station_wide = True

    epoch = models.BigIntegerField(primary_key=True)
    holder = models.CharField(max_length=200, blank=True)
    taken_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    # Turns of the loop in this term, and the worst one of the last minute.
    turns = models.BigIntegerField(db_default=0)
    worst_turn_seconds = models.FloatField(db_default=0.0)
    turns_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-epoch"]
        verbose_name_plural = "leadership"

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.holder or 'no leader'}"
