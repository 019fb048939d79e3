"""WSGI entry point for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

from config import embedded_postgres
from station.database.roles import WEB, take_role

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
embedded_postgres.hold_embedded_server()
application = get_wsgi_application()
take_role(WEB)
