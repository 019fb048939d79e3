"""The admin's theme and navigation: unfold's settings."""

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
    "SITE_URL": None,  # there is no other site to go back to
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("airlock/favicon.svg")},
    ],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [lambda request: static("airlock/airlock.css")],
    "SCRIPTS": [
        lambda request: static("airlock/live.js"),
        lambda request: static("airlock/once.js"),
        lambda request: static("airlock/player.js"),
        lambda request: static("airlock/labels.js"),
    ],
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
                "title": "Playout",
                "items": [
                    _item("Channels", "live_tv", "playout_channel", "playout.view_channel"),
                    _item("Playlists", "playlist_play", "playout_playlist", "playout.view_playlist"),
                    _page("Import a playlist", "playlist_add", "import-playlist", "playout.change_playlist"),
                    _item("As-run", "receipt_long", "playout_asrunentry", "playout.view_asrunentry"),
                ],
            },
            {
                "title": "Library",
                "items": [
                    _item("Assets", "video_library", "assets_asset", "assets.view_asset"),
                    _page("Import media", "upload_file", "import-media", "assets.add_import"),
                    _item("Imports", "input", "assets_import", "assets.view_import"),
                    _item("Watch folders", "folder_eye", "assets_watchfolder", "assets.view_watchfolder"),
                    _item("Deliveries", "local_shipping", "assets_delivery", "assets.view_delivery"),
                    _item("Destinations", "cloud_upload", "assets_destination", "assets.view_destination"),
                    _page("Upcoming deletions", "auto_delete", "what-goes", "assets.view_asset"),
                    _item("Retention", "rule", "assets_retentionrule", "assets.view_retentionrule"),
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
                    _item("Jobs", "manufacturing", "jobs_job", "jobs.view_job"),
                    _item("Runs", "checklist", "jobs_run", "jobs.view_run"),
                    _item("Job workers", "engineering", "jobs_jobworker", "jobs.view_jobworker"),
                    _item("Schedulers", "schedule", "jobs_scheduler", "jobs.view_scheduler"),
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
                    _item("API tokens", "key", "station_apitoken", "station.view_apitoken"),
                    _item("Roles", "groups", "auth_group", "auth.view_group"),
                ],
            },
        ],
    },
}
