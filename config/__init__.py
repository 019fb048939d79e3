"""Composes the apps: settings, URLs, the admin site, system checks, the embedded database, `manage.py up`."""
