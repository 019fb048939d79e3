"""Are we there? For load balancers and for `manage.py up`; no login, no details."""

import logging

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

logger = logging.getLogger(__name__)


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers and reaches its database."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        logger.exception("The database does not answer.")
        return JsonResponse({"status": "no database"}, status=503)
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Ready for traffic: the database is there and its schema is ours."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return JsonResponse({"status": "no database"}, status=503)
    if pending:
        return JsonResponse({"status": "migrations pending"}, status=503)
    return JsonResponse({"status": "ok"})
