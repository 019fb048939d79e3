"""The look of the admin: unfold's settings."""

from django.templatetags.static import static
from django.urls import reverse_lazy


def _item(title: str, icon: str, name: str, permission: str) -> dict[str, object]:
    return _page(title, icon, f"admin:{name}_changelist", permission)


def _page(title: str, icon: str, name: str, permission: str) -> dict[str, object]:
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(name),
        "permission": lambda request: request.user.has_perm(permission),
    }


UNFOLD = {
    "SITE_TITLE": "Airlock",
    "SITE_HEADER": "Airlock",
    "SITE_SUBHEADER": "Recording and playout",
    "SITE_SYMBOL": "sensors",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("airlock/favicon.svg")},
    ],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [lambda request: static("airlock/airlock.css")],
    "SCRIPTS": [lambda request: static("airlock/live.js")],
    "SIDEBAR": {
        "show_search": False,
        "navigation": [
            {
                "title": "Recording",
                "items": [
                    _item("Recorders", "videocam", "scheduling_recorder", "scheduling.view_recorder"),
                    _item("Schedules", "event_repeat", "scheduling_schedule", "scheduling.view_schedule"),
                    _item("Bookings", "event", "scheduling_booking", "scheduling.view_booking"),
                    _page("Tonight", "nightlight", "tonight", "scheduling.view_booking"),
                    _page("Punctuality", "timer", "punctuality", "scheduling.view_booking"),
                    _page("Import a calendar", "upload", "import-calendar", "scheduling.add_booking"),
                    _item("Calendar links", "link", "scheduling_calendarfeed", "scheduling.view_calendarfeed"),
                ],
            },
            {
                "title": "Station",
                "items": [
                    _item("Alerts", "notifications", "station_alert", "station.view_alert"),
                    _item("Alert routes", "send", "station_alertroute", "station.view_alertroute"),
                    _item("Projects", "folder", "station_project", "station.view_project"),
                    _item("Audit", "history", "station_auditentry", "station.view_auditentry"),
                ],
            },
            {
                "title": "Background work",
                "items": [
                    _item("Jobs", "manufacturing", "scheduling_job", "scheduling.view_job"),
                    _item("Runs", "checklist", "scheduling_run", "scheduling.view_run"),
                    _item("Workers", "engineering", "scheduling_jobworker", "scheduling.view_jobworker"),
                ],
            },
            {
                "title": "Machines",
                "items": [
                    _item("Nodes", "dns", "nodes_node", "nodes.view_node"),
                    _item("Workloads", "deployed_code", "nodes_workload", "nodes.view_workload"),
                    _item("Ports", "settings_input_hdmi", "nodes_port", "nodes.view_port"),
                    _item("Reservations", "lock_clock", "nodes_reservation", "nodes.view_reservation"),
                ],
            },
            {
                "title": "People",
                "items": [
                    _item("Users", "person", "auth_user", "auth.view_user"),
                    _item("Roles", "groups", "auth_group", "auth.view_group"),
                ],
            },
        ],
    },
}
