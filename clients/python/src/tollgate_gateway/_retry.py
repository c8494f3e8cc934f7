# Whether to try again, and after how long. It does not wait itself.

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_MOST_SECONDS = 60.0
_FIRST_SECONDS = 0.5
_LAST_SECONDS = 8.0
_NUMBER = re.compile(r"\d{1,15}(\.\d+)?|\.\d+", re.ASCII)


def is_worth_repeating(
    status: int, code: str | None, headers: Mapping[str, str], *, is_generating: bool
) -> bool:
    said = headers.get("x-should-retry", "").strip().lower()
    if said in ("true", "false"):
        return said == "true"
    if status == 409:
        return code == "idempotency_in_progress"
    if status == 504:
        # The backend may have generated meanwhile: another attempt would be charged, too.
        return not is_generating
    return status in (408, 429) or status >= 500


def said_seconds(headers: Mapping[str, str]) -> float | None:
    """The wait that the answer asks for; None when it asks for none that is usable."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        seconds = parsedate_to_datetime(value.strip()).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return seconds if seconds >= 0 else None


def wait_seconds(attempt: int, said: float | None) -> float:
    """The wait before attempt `attempt` + 1, counted from 0. Full jitter: clients do not return together."""
    if said is not None:
        return min(said, _MOST_SECONDS)
    return random.random() * min(_LAST_SECONDS, _FIRST_SECONDS * (1 << min(attempt, 10)))


def _number(value: str | None) -> float | None:
    text = (value or "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None
