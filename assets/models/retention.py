"""What a project keeps, and for how long."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.functional import cached_property


class RetentionRule(models.Model):
    """One per project. Whatever it says: nothing that is used, held, live or on its way to the MAM goes (A-07)."""

    project = models.OneToOneField("station.Project", on_delete=models.CASCADE, related_name="retention")
    max_age_days = models.PositiveIntegerField(
        "days kept", null=True, blank=True, validators=[MinValueValidator(1)], help_text="Older ones go."
    )
    max_count = models.PositiveIntegerField(
        "number kept", null=True, blank=True, validators=[MinValueValidator(1)], help_text="The oldest beyond it go."
    )
    min_free_percent = models.PositiveIntegerField(
        "free disk kept (%)",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(90)],
        help_text="When less of the disk is free, the oldest go, and what is in the trash before its days are over.",
    )
    trash_days = models.PositiveIntegerField(
        "days in the trash", default=7, validators=[MaxValueValidator(365)], help_text="Until then it can be restored."
    )
    only_delivered = models.BooleanField(
        default=False, help_text="Only what every automatic destination of the project has got."
    )
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["project"]

    @cached_property
    def automatic_destinations(self) -> list[Any]:
        """Where everything of the project goes by itself; read once for all assets."""
        return list(self.project.destinations.filter(is_automatic=True, is_active=True))

    def __str__(self) -> str:
        return f"retention of {self.project}"

    def clean(self) -> None:
        if not (self.max_age_days or self.max_count or self.min_free_percent):
            raise ValidationError("Say how long, how many, or how much of the disk stays free.")
