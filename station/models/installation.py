"""The identity of this installation, because several may share a Docker Engine."""

import uuid

from django.db import models


class Installation(models.Model):
    """One row, created by the first migration; its identity labels every container we create."""

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
