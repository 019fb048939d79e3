"""Retention rules: how long a project keeps its assets."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.functional import cached_property


class RetentionRule(models.Model):
    """One rule per project. Assets that are used, held, live or being delivered are always kept (A-07)."""

    project = models.OneToOneField("station.Project", on_delete=models.CASCADE, related_name="retention")
    max_age_days = models.PositiveIntegerField(
        "days kept", null=True, blank=True, validators=[MinValueValidator(1)], help_text="Older assets are deleted."
    )
    max_count = models.PositiveIntegerField(
        "number kept",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="If there are more, the oldest are deleted.",
    )
    min_free_percent = models.PositiveIntegerField(
        "free disk kept (%)",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(90)],
        help_text="If less is free, the oldest assets are deleted and the trash is emptied early.",
    )
    trash_days = models.PositiveIntegerField(
        "days in the trash",
        default=7,
        validators=[MaxValueValidator(365)],
        help_text="An asset can be restored during this time.",
    )
    only_delivered = models.BooleanField(
        default=False, help_text="Delete only assets that were delivered to every automatic destination."
    )
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["project"]

    @cached_property
    def automatic_destinations(self) -> list[Any]:
        """Active automatic destinations of the project, read once for all assets."""
        return list(self.project.destinations.filter(is_automatic=True, is_active=True))

    def __str__(self) -> str:
        return f"retention of {self.project}"

    def clean(self) -> None:
        if not (self.max_age_days or self.max_count or self.min_free_percent):
            raise ValidationError("Enter days kept, number kept, or free disk kept.")
