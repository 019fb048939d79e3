"""Who owns things, and who may do what with them."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models


class Project(models.Model):
    """Rights are given per project; an object without a project is for administrators only."""

    project_path = "pk"  # what belongs to a project: the project itself

    name = models.CharField(max_length=80, unique=True)
    slug = models.SlugField(max_length=40, unique=True, help_text="Used in folder names.")
    is_archived = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """What one person may do in one project: the permissions of the role's group, there and only there."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["project", "user"]
        constraints = [
            # One role per person and project, so that "what may she do here" has one answer.
            models.UniqueConstraint(fields=["project", "user"], name="membership_once_per_project")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} in {self.project}"
