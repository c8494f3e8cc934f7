# The settings of a client, checked once: the key, the gateway's address, the time-outs. Never shows the key.

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._errors import TollgateError


class Secret:
    """A string that no print, log or traceback shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def hide_in(self, text: str) -> str:
        # A text this short is no real key, and may be part of any word.
        return text.replace(self._value, "***") if len(self._value) > 7 else text

    def __repr__(self) -> str:
        return "***"


@dataclass(frozen=True)
class Timeouts:
    """Seconds. `head` is for an answer that is generated and not streamed; everything else must move within `idle`."""

    connect: float
    idle: float
    head: float


@dataclass(frozen=True)
class Settings:
    key: Secret
    root: str
    """Without `/v1` and without a slash at its end."""
    max_retries: int
    timeouts: Timeouts
    headers: Mapping[str, str]

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"


def read_settings(
    api_key: str | None,
    base_url: str | None,
    *,
    max_retries: int,
    timeouts: Timeouts,
    headers: Mapping[str, str] | None,
) -> Settings:
    if max_retries < 0:
        raise TollgateError("max_retries is 0 or more.")
    key = api_key or os.environ.get("TOLLGATE_API_KEY") or ""
    url = base_url or os.environ.get("TOLLGATE_BASE_URL") or ""
    return Settings(
        key=Secret(_checked_key(key.strip())),
        root=_root_of(url.strip()),
        max_retries=max_retries,
        timeouts=timeouts,
        headers=dict(headers or {}),
    )


def _checked_key(key: str) -> str:
    if not key:
        raise TollgateError("There is no API key. Give api_key, or set TOLLGATE_API_KEY.")
    # Refused here, because the HTTP library's own error would show it.
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise TollgateError("The API key has characters that no key has. Check where it came from.")
    return key


def _root_of(base_url: str) -> str:
    if not base_url:
        raise TollgateError("There is no base URL. Give base_url, or set TOLLGATE_BASE_URL.")
    try:
        parts = urlsplit(base_url)
    except ValueError as error:
        raise TollgateError(f"base_url is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TollgateError("base_url is not an http or https URL with a host.")
    if parts.username is not None or parts.query or parts.fragment:
        raise TollgateError("base_url has a user, a query or a fragment. Give it without.")
    root = base_url.rstrip("/#?")
    return root[: -len("/v1")].rstrip("/") if root.endswith("/v1") else root
