"""Projects, which own objects, and the memberships that grant rights in them."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models


class Project(models.Model):
    """Rights are granted per project; an object without a project is for administrators only."""

    project_path = "pk"  # a project belongs to itself

    name = models.CharField(max_length=80, unique=True)
    slug = models.SlugField(max_length=40, unique=True, help_text="Used in folder names.")
    is_archived = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user's role in one project; it grants the permissions of the role's group in that project only."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["project", "user"]
        constraints = [
            # One role per user and project, so that a user's rights there are clear.
            models.UniqueConstraint(fields=["project", "user"], name="membership_once_per_project")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} in {self.project}"
