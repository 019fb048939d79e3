"""Permission checks: Django's permissions, granted per project by membership.

- A superuser, or a member of the group `administrator`, may do everything in every project.
- Any other user has, in each project, the permissions of their role there.
- An object without a project is for administrators only. So is a model without a project field, unless it sets
  `is_station_wide = True`: then a role with the permission in any project is enough.
"""

from enum import StrEnum
from typing import Any, TypeVar

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Permission
from django.db import models

from station.models import Project


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ENGINEER = "engineer"
    ADMINISTRATOR = "administrator"


Row = TypeVar("Row", bound=models.Model)
AnyUser = AbstractBaseUser | AnonymousUser


def is_administrator(user: Any) -> bool:
    if not user.is_active:
        return False
    if user.is_superuser:
        return True
    if not hasattr(user, "_is_administrator"):
        user._is_administrator = user.groups.filter(name=Role.ADMINISTRATOR).exists()
    return bool(user._is_administrator)


def permissions_by_project(user: Any) -> dict[int, set[str]]:
    """project id -> {"app.codename"}; read once per request and cached on the user object."""
    if not hasattr(user, "_permissions_by_project"):
        rows = Permission.objects.filter(group__in=user.memberships.values("role")).values_list(
            "group", "content_type__app_label", "codename"
        )
        by_role: dict[int, set[str]] = {}
        for role, label, codename in rows:
            by_role.setdefault(role, set()).add(f"{label}.{codename}")
        user._permissions_by_project = {
            membership.project_id: by_role.get(membership.role_id, set()) for membership in user.memberships.all()
        }
    found: dict[int, set[str]] = user._permissions_by_project
    return found


def projects_with(user: Any, permission: str) -> models.QuerySet[Project]:
    """The projects in which the user holds the permission."""
    if is_administrator(user):
        return Project.objects.all()
    if not user.is_active or user.is_anonymous:
        return Project.objects.none()
    ids = [project for project, held in permissions_by_project(user).items() if permission in held]
    return Project.objects.filter(pk__in=ids)


def only_visible(rows: models.QuerySet[Row], user: Any, permission: str) -> models.QuerySet[Row]:
    """The rows that the user may see: all for an administrator, otherwise those of the user's projects."""
    if is_administrator(user):
        return rows
    if getattr(rows.model, "is_station_wide", False):
        return rows if user.has_perm(permission) else rows.none()
    path = getattr(rows.model, "project_path", "project")
    return rows.filter(**{f"{path}__in": projects_with(user, permission)})


def project_id_of(instance: models.Model) -> int | None:
    """The project an object belongs to: its own, or that of a related object (`project_path`)."""
    path: str = getattr(type(instance), "project_path", "project")
    if path == "pk":  # the object is a project
        return int(instance.pk)
    target: Any = instance
    for name in path.split("__"):
        target = getattr(target, name, None)
    return target.pk if target is not None else None


class ProjectBackend(ModelBackend):
    """Without an object: does the user have the permission in any project? With one: in that object's project?"""

    def has_perm(self, user_obj: AnyUser, perm: str, obj: models.Model | None = None) -> bool:
        if not user_obj.is_active or user_obj.is_anonymous:
            return False
        if is_administrator(user_obj):
            return True
        held = permissions_by_project(user_obj)
        if obj is None or getattr(type(obj), "is_station_wide", False):
            return any(perm in permissions for permissions in held.values())
        project = project_id_of(obj)
        return project is not None and perm in held.get(project, set())

    def has_module_perms(self, user_obj: AnyUser, app_label: str) -> bool:
        if not user_obj.is_active or user_obj.is_anonymous:
            return False
        if is_administrator(user_obj):
            return True
        held = permissions_by_project(user_obj).values()
        return any(name.startswith(f"{app_label}.") for permissions in held for name in permissions)
