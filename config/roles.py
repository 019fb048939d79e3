"""The four roles as groups with permissions, updated after every migrate.

They are listed here because only this app sees all others. A permission that an administrator adds to a group by hand
is kept; the ones listed here are always restored.
"""

from typing import Any

from django.contrib.auth.models import Group, Permission

from station.rights import Role

# Models of the library that engineers may set up.
LIBRARY_RULES = ("destination", "watchfolder", "retentionrule")
VIEWER = (
    "scheduling.view_recorder",
    "scheduling.view_booking",
    "scheduling.view_schedule",
    "playout.view_channel",
    "playout.view_channeloutput",
    "playout.view_playlist",
    "playout.view_playlistitem",
    "playout.view_asrunentry",
    "assets.view_asset",
    "assets.view_delivery",
    "station.view_project",
    "station.view_alert",
)
OPERATOR = (
    *VIEWER,
    "scheduling.operate_recorder",
    "scheduling.add_booking",
    "scheduling.change_booking",
    "scheduling.add_schedule",
    "scheduling.change_schedule",
    "jobs.view_job",
    "jobs.view_run",
    "playout.operate_channel",
    *(f"playout.{verb}_{name}" for name in ("playlist", "playlistitem") for verb in ("add", "change", "delete")),
    "assets.change_asset",
    "assets.operate_asset",
    "assets.view_import",
    "assets.add_import",
    "station.acknowledge_alert",
)
ENGINEER = (
    *OPERATOR,
    "scheduling.add_recorder",
    "scheduling.change_recorder",
    "scheduling.delete_recorder",
    "scheduling.delete_schedule",
    "scheduling.view_calendarfeed",
    "scheduling.add_calendarfeed",
    "scheduling.change_calendarfeed",
    "scheduling.delete_calendarfeed",
    "jobs.operate_job",
    "jobs.change_job",
    "jobs.view_jobworker",
    "jobs.view_scheduler",
    *(f"playout.{verb}_{name}" for name in ("channel", "channeloutput") for verb in ("add", "change", "delete")),
    *(f"assets.{verb}_{name}" for name in LIBRARY_RULES for verb in ("view", "add", "change", "delete")),
    "nodes.view_node",
    "nodes.view_port",
    "nodes.view_reservation",
    "nodes.view_workload",
    "station.view_auditentry",
)


def sync_roles(using: str = "default", **kwargs: Any) -> None:
    """Create the groups and add what is missing."""
    from django.apps import apps
    from django.contrib.auth.management import create_permissions

    for app in apps.get_app_configs():
        create_permissions(app, verbosity=0, using=using)
    by_name = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.using(using).select_related("content_type")
    }
    roles = {
        Role.VIEWER: VIEWER,
        Role.OPERATOR: OPERATOR,
        Role.ENGINEER: ENGINEER,
        Role.ADMINISTRATOR: tuple(by_name),
    }
    for role, names in roles.items():
        group, _ = Group.objects.using(using).get_or_create(name=role)
        group.permissions.add(*(by_name[name] for name in names))
