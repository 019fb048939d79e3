"""Encryption of stored secrets: sealed before they reach the database, opened only where they are used."""

import json
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class CannotOpen(Exception):
    """No key in SEALING_KEYS opens this secret."""


@lru_cache
def _box(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def seal(secret: dict[str, Any]) -> str:
    """The encrypted secret as text. An empty secret becomes an empty string, so that a query can find it."""
    if not secret:
        return ""
    return _box(tuple(settings.SEALING_KEYS)).encrypt(json.dumps(secret).encode()).decode()


def unseal(sealed: str) -> dict[str, Any]:
    if not sealed:
        return {}
    try:
        opened: dict[str, Any] = json.loads(_box(tuple(settings.SEALING_KEYS)).decrypt(sealed.encode()))
    except InvalidToken as error:
        raise CannotOpen("A stored secret was sealed with a key that is not in SEALING_KEYS.") from error
    return opened
