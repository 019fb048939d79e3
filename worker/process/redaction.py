"""Removes secrets from texts before they are stored: ffmpeg and engines print addresses with their keys."""

import re

HIDDEN = "***"
_NAMES = "passphrase|password|passwd|pass|token|key|streamkey|stream_key|secret|auth|signature|sig|streamid"
_PATTERNS = (
    re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]*://)[^/\s@'\"]+(?=@)", re.IGNORECASE),
    re.compile(r"(?P<head>\brtmps?://[^/\s'\"]+/[^/\s'\"]+/)[^\s'\"]+", re.IGNORECASE),
    re.compile(rf"(?P<head>\b(?:{_NAMES})=)[^&\s'\"]+", re.IGNORECASE),
    re.compile(r"(?P<head>\bBearer\s+)\S+", re.IGNORECASE),
)


def redact(text: str, *secrets: str) -> str:
    """`text` without the given secrets and without anything that looks like one inside an address."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<head>{HIDDEN}", text)
    return text
