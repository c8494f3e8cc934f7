# One call, as data: what is asked, not how it is sent. Builds the URL and the headers.

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote, urlencode

from ._errors import TollgateError
from ._settings import Settings, Timeouts
from ._version import __version__

if TYPE_CHECKING:
    from ._upload import Multipart


class Options(TypedDict, total=False):
    """The options of every call, besides its own parameters. In seconds."""

    idempotency_key: str
    """For a creating call; by default a random one, the same for all its attempts."""
    extra_headers: Mapping[str, str]
    max_retries: int
    connect_timeout: float
    idle_timeout: float
    head_timeout: float


_OPTIONS = Options.__optional_keys__
_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")


@dataclass(frozen=True)
class Call:
    method: str
    path: Sequence[str]
    """Segments, `v1` or `api` first; each is encoded by itself."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    upload: Multipart | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    streams: bool = False
    is_creating: bool = False
    """Takes an `Idempotency-Key`."""
    is_generating: bool = False
    """The backend generates the answer: without a stream it takes long, and after a 504 it is not requested again."""
    is_paid_each_time: bool = False
    """The gateway can't tell a second attempt from a second call."""
    may_redirect: bool = False


@dataclass(frozen=True)
class Outgoing:
    """What is sent, once or several times."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | Multipart | None
    timeouts: Timeouts
    head_seconds: float
    is_own: bool = True
    """False for another origin: it gets no header of the client's."""


def outgoing_of(call: Call, settings: Settings) -> Outgoing:
    options = call.options
    timeouts = Timeouts(
        connect=options.get("connect_timeout", settings.timeouts.connect),
        idle=options.get("idle_timeout", settings.timeouts.idle),
        head=options.get("head_timeout", settings.timeouts.head),
    )
    headers = {
        "accept": "text/event-stream" if call.streams else "application/json",
        # Answers are counted and continued by bytes, and limited in size: compression would prevent all of that.
        "accept-encoding": "identity",
        "user-agent": f"tollgate-gateway-python/{__version__}",
    }
    body: bytes | Multipart | None = call.upload
    if call.upload is not None:
        headers["content-type"] = call.upload.content_type
        if call.upload.size is not None:
            headers["content-length"] = str(call.upload.size)
    elif call.body is not None:
        headers["content-type"] = "application/json"
        body = _encoded(call.body)
    if call.is_creating:
        headers["idempotency-key"] = options.get("idempotency_key") or str(uuid.uuid4())
    for more in (settings.headers, options.get("extra_headers") or {}, call.headers):
        headers.update({name.lower(): value for name, value in more.items()})
    for name, value in headers.items():
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise TollgateError(f"The header {name!r} can't be sent. Nothing was sent.")
    url = _url_of(call, settings.root)
    is_slow = call.is_generating and not call.streams
    # After everything that may fail, because a traceback may show variables.
    headers.setdefault("authorization", f"Bearer {settings.key.reveal()}")
    return Outgoing(
        method=call.method,
        url=url,
        headers=headers,
        body=body,
        timeouts=timeouts,
        head_seconds=max(timeouts.head, timeouts.idle) if is_slow else timeouts.idle,
    )


def divided(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments into the body's fields and the options. `extra_body` is laid over the fields."""
    options = {name: value for name, value in given.items() if name in _OPTIONS}
    fields = {name: value for name, value in given.items() if name not in _OPTIONS}
    fields.update(fields.pop("extra_body", None) or {})
    return fields, options


def _url_of(call: Call, root: str) -> str:
    query = {name: value for name, value in call.query.items() if value is not None}
    url = "/".join((root, *(_segment(part) for part in call.path)))
    return f"{url}?{urlencode(query, quote_via=quote)}" if query else url


def _segment(part: str) -> str:
    if not isinstance(part, str) or not part:
        raise TollgateError("An id is empty. Nothing was sent.")
    if part in (".", ".."):
        return part.replace(".", "%2E")
    return quote(part, safe="", errors="replace")


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TollgateError(f"The parameters can't be written as JSON: {error}") from error
    return text.encode("utf-8", "replace")
