"""Removes secrets from log lines and stored errors, by the same rules the media worker uses for ffmpeg's output."""

import logging

from worker.process.redaction import redact


class RedactingFilter(logging.Filter):
    """Applies `redact` to the formatted message and to the traceback of every log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True


__all__ = ["RedactingFilter", "redact"]
