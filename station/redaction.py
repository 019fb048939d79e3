"""Keeps secrets out of logs and stored errors: addresses lose their credentials before anybody can read them."""

import logging
import re

HIDDEN = "***"
_USERINFO = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@'\"]+@", re.IGNORECASE)
_PARAMETER = re.compile(
    r"(?P<name>\b(?:passphrase|password|passwd|pass|token|key|streamkey|stream_key|secret|auth|signature|sig|streamid)=)[^&\s'\"]+",
    re.IGNORECASE,
)
_RTMP_KEY = re.compile(r"(?P<head>\brtmps?://[^/\s'\"]+/[^/\s'\"]+/)[^\s'\"]+", re.IGNORECASE)
_BEARER = re.compile(r"(?P<head>\bBearer\s+)\S+", re.IGNORECASE)


def redact(text: str, *secrets: str) -> str:
    """`text` without the given secrets and without anything that looks like one inside an address."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    text = _USERINFO.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _RTMP_KEY.sub(rf"\g<head>{HIDDEN}", text)
    text = _PARAMETER.sub(rf"\g<name>{HIDDEN}", text)
    return _BEARER.sub(rf"\g<head>{HIDDEN}", text)


class RedactingFilter(logging.Filter):
    """Applies `redact` to the finished sentence and to the traceback of every log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True
