"""Logs that a machine can read: an object on each line, for each request and each message."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, message, and whatever `fields` it was given."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback stands in it as one text."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_as_json(stream: TextIO | None = None) -> None:
    """Write all that is logged from now on as lines of JSON, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.getLogger("pellucid.serve").setLevel(logging.INFO)


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """Log a request by its route, never its text, its address or its key."""
    fields = {"method": method, "path": path, "status": status, "seconds": round(seconds, 4)}
    logging.getLogger("pellucid.serve").info("request", extra={"fields": fields})
