"""System checks: wrong settings are refused at start instead of failing later."""

from base64 import urlsafe_b64decode
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.utils.module_loading import import_string

KEY_BYTES = 32
UNREAL_ZONES = {"localtime", "Factory", "posixrules"}


@register(Tags.compatibility)
def check_house_zone(**kwargs: Any) -> list[CheckMessage]:
    name = settings.HOUSE_TIME_ZONE
    if name in available_timezones() - UNREAL_ZONES:
        return []
    return [
        Error(f"HOUSE_TIME_ZONE={name} is not an IANA time zone.", hint="For example Europe/Berlin.", id="airlock.E001")
    ]


@register(Tags.security)
def check_sealing_keys(**kwargs: Any) -> list[CheckMessage]:
    try:
        are_good = all(len(urlsafe_b64decode(key)) == KEY_BYTES for key in settings.SEALING_KEYS)
    except ValueError:
        are_good = False
    if not are_good:
        hint = "Each key is 32 random bytes in URL-safe base64."
        return [Error("A key in SEALING_KEYS is not valid.", hint=hint, id="airlock.E002")]
    return []


@register(Tags.compatibility)
def check_steps(**kwargs: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for path in settings.SCHEDULER_STEPS:
        try:
            import_string(path)
        except ImportError as error:
            found.append(Error(f"SCHEDULER_STEPS names {path}: {error}", id="airlock.E003"))
    return found


@register(Tags.security, deploy=True)
def check_failpoint(**kwargs: Any) -> list[CheckMessage]:
    if not settings.FAILPOINT:
        return []
    return [
        Warning("FAILPOINT is set: this process will kill itself.", hint="It is only for tests.", id="airlock.W001")
    ]
