"""API tokens for programs. A token has the rights of its user."""

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80, help_text="The program that uses this token, e.g. automation desk.")
    # Only a hash is stored: the token is shown once, when it is created.
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    created_by = models.CharField(max_length=150, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["user", "name"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"
