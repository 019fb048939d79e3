"""Encryption of stored secrets: sealed before they reach the database, opened only where they are used.

`cryptography` is imported at first use: it needs 7 MB, and most job workers never open a secret.
"""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


class CannotOpen(Exception):
    """No key in SEALING_KEYS opens this secret."""


@lru_cache
def _box(keys: tuple[str, ...]) -> "MultiFernet":
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(key) for key in keys])


def seal(secret: dict[str, Any]) -> str:
    """The encrypted secret as text. An empty secret becomes an empty string, so that a query can find it."""
    if not secret:
        return ""
    return _box(tuple(settings.SEALING_KEYS)).encrypt(json.dumps(secret).encode()).decode()


def unseal(sealed: str) -> dict[str, Any]:
    if not sealed:
        return {}
    from cryptography.fernet import InvalidToken

    try:
        opened: dict[str, Any] = json.loads(_box(tuple(settings.SEALING_KEYS)).decrypt(sealed.encode()))
    except InvalidToken as error:
        raise CannotOpen("A stored secret was sealed with a key that is not in SEALING_KEYS.") from error
    return opened
