"""The audit log: who changed what, with the values before and after."""

from collections.abc import Mapping
from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from station.database.words import Words

# What the search box of the list finds.
AUDIT_WORDS = Words("who", "subject_name", "note")


class AuditEntry(models.Model):
    """Append-only. A changed secret is recorded as changed, without its value."""

    class Result(models.TextChoices):
        DONE = "done"
        REFUSED = "refused"
        NOTHING = "nothing", "nothing to do"
        FAILED = "failed", "ended with an error"

    COLOURS: ClassVar[Mapping[str, str]] = {
        Result.DONE: "green",
        Result.REFUSED: "amber",
        Result.NOTHING: "grey",
        Result.FAILED: "red",
    }

    at = models.DateTimeField()
    who = models.CharField(max_length=150)
    what = models.CharField(max_length=80)
    result = models.CharField(max_length=8, choices=Result.choices, default=Result.DONE)
    subject = models.CharField(max_length=80)  # "recorder:12"
    subject_name = models.CharField(max_length=200)
    project = models.ForeignKey("station.Project", null=True, on_delete=models.SET_NULL, related_name="+")
    before = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    after = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    note = models.TextField(blank=True)  # of an action: the sentence the person was given

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            # The search box of the list: words by their beginnings.
            GinIndex(AUDIT_WORDS, name="audit_words"),
            # The history of one object, newest first.
            models.Index(fields=["subject", "-at"], name="audit_of_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.who}: {self.what} {self.subject_name}"
