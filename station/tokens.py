"""API tokens: created, shown once, looked up by their hash."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from ninja.security import HttpBearer

from station.clock import database_now
from station.models import ApiToken

# `last_used_at` is written at most this often.
NOTED_EVERY = timedelta(minutes=1)


def hash_of(token: str) -> str:
    """A plain hash is enough: tokens are long and random, so they cannot be guessed from it."""
    return hashlib.sha256(token.encode()).hexdigest()


def make(user: User, name: str, *, now: datetime, by: str) -> tuple[ApiToken, str]:
    """The row, and the token itself, which is not stored anywhere."""
    token = secrets.token_urlsafe(32)
    row = ApiToken.objects.create(user=user, name=name, token_hash=hash_of(token), created_at=now, created_by=by)
    return row, token


def user_of(token: str) -> User | None:
    row = ApiToken.objects.select_related("user").filter(token_hash=hash_of(token), is_active=True).first()
    if row is None or not row.user.is_active:
        return None
    now = database_now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - NOTED_EVERY)
    ApiToken.objects.filter(stale, pk=row.pk).update(last_used_at=now)
    return row.user


class TokenAuth(HttpBearer):
    """`Authorization: Bearer …`. Cookies are ignored, so a web page cannot forge a request."""

    def authenticate(self, request: Any, token: str) -> User | None:
        user = user_of(token)
        if user is not None:
            request.user = user
        return user
