"""Composes the apps: settings, addresses, the admin site, system checks, the embedded database, `manage.py up`."""
