"""The identity of this installation, because several may share a Docker Engine, and the machines that act for it."""

import uuid

from django.db import models


class Installation(models.Model):
    """One row, created at first use; its identity labels every container we create."""

    identity = models.UUIDField(default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # Exactly one row: with a second identity, our own containers would look like another installation's.
            models.CheckConstraint(condition=models.Q(id=1), name="installation_is_single")
        ]

    def __str__(self) -> str:
        return self.short

    @property
    def short(self) -> str:
        return self.identity.hex[:8]

    @classmethod
    def current(cls) -> "Installation":
        return cls.objects.get_or_create(id=1)[0]


class AdmittedMachine(models.Model):
    """A key that may act for this installation (station/admission.py). A copied database does not contain the key."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    name = models.CharField(max_length=300)
    admitted_at = models.DateTimeField()

    class Meta:
        ordering = ["admitted_at"]

    def __str__(self) -> str:
        return self.name
