# All errors that this package raises, and which answer becomes which of them. No I/O.

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from typing import Any


class TollgateError(Exception):
    """What every error of this package is a kind of; raised itself where none of the others fits: no key, an event
    that is not JSON, an answer that is not the API's.

    `request_id` finds the request in the gateway's log. `partial_text` is what a stream had brought of its text.
    """

    def __init__(self, message: str = "", *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        self.partial_text: str | None = None


class APIError(TollgateError):
    """The gateway's refusal, as an answer or as the last event of a stream (then `status` is None).

    `code` is what to switch on; the list is in the gateway's docs/errors.md. `param` names the field at fault,
    `retry_after` is in seconds, `body` is the JSON object that came, if one did.
    """

    # Whether the same call may succeed when it is sent again.
    _is_passing = False

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        code: str | None = None,
        type: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        body: object = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.status = status
        self.code = code
        self.type = type
        self.param = param
        self.retry_after = retry_after
        self.body = body

    def __str__(self) -> str:
        """`402 insufficient_balance: The balance … (request req_…)`: the same in all of our clients."""
        facts = " ".join(str(fact) for fact in (self.status, self.code or self.type) if fact)
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{facts}: {self.message}{request}" if facts else f"{self.message}{request}"


class BadRequestError(APIError):
    """The request can't be done as it is: any 4xx that has no class of its own."""


class AuthenticationError(APIError):
    """401: no key, or one that is wrong, revoked or expired."""


class InsufficientBalanceError(APIError):
    """402: the balance does not cover the request. Top up the account."""


class PermissionDeniedError(APIError):
    """403: the key may not do this, the account is suspended, or its storage is full."""


class NotFoundError(APIError):
    """404, and 410 for what has expired."""


class ConflictError(APIError):
    """409: `session_busy` while the session generates an answer."""


class RateLimitError(APIError):
    """429: `retry_after` says when to come back, if it is known."""


class ServerError(APIError):
    """5xx: the gateway's or the model's failure."""


class ConnectionError(TollgateError, builtins.ConnectionError):
    """No answer: refused, reset, no such host, TLS. Python's own ConnectionError too."""

    # Whether something may have been sent: a call that is charged is not sent twice.
    _may_have_been_sent = False


class TimeoutError(ConnectionError, builtins.TimeoutError):
    """The connection took too long to be made, or was silent for too long."""


class IncompleteStreamError(TollgateError):
    """A stream or download broke off and can't be continued. What arrived is not complete."""


_BY_STATUS: Mapping[int, type[APIError]] = {
    401: AuthenticationError,
    402: InsufficientBalanceError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    429: RateLimitError,
}

_BY_TYPE: Mapping[str, type[APIError]] = {
    "authentication_error": AuthenticationError,
    "billing_error": InsufficientBalanceError,
    "permission_error": PermissionDeniedError,
    "not_found_error": NotFoundError,
    "gone_error": NotFoundError,
    "conflict_error": ConflictError,
    "rate_limit_error": RateLimitError,
    "invalid_request_error": BadRequestError,
    "request_too_large": BadRequestError,
    "server_error": ServerError,
    "upstream_error": ServerError,
    "overloaded_error": ServerError,
    "timeout_error": ServerError,
}


def error_of_answer(
    status: int, body: object, *, request_id: str | None, retry_after: float | None
) -> APIError:
    """`body`: the parsed JSON, or None if there was none."""
    facts = _facts_of(body)
    facts["message"] = facts["message"] or f"The answer has the status {status}, and no message."
    facts["request_id"] = request_id or facts["request_id"]
    return _class_of_status(status)(status=status, retry_after=retry_after, body=body, **facts)


def error_of_event(body: Mapping[str, Any]) -> APIError:
    facts = _facts_of(body)
    kind = _BY_TYPE.get(facts["type"] or "", APIError)
    facts["message"] = facts["message"] or json.dumps(body["error"], ensure_ascii=False)
    return kind(body=body, **facts)


def _class_of_status(status: int) -> type[APIError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 400 <= status < 500:
        return BadRequestError
    return ServerError if 500 <= status < 600 else APIError


def _facts_of(body: object) -> dict[str, Any]:
    given: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    error = given.get("error")
    if isinstance(error, str):
        error = {"message": error}
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    facts: dict[str, Any] = {name: _text_of(fields.get(name)) for name in ("code", "type", "param")}
    message = fields.get("message")
    facts["message"] = message if isinstance(message, str) else None
    facts["request_id"] = _text_of(given.get("request_id"))
    return facts


def _text_of(value: object) -> str | None:
    """Keeps the value as it is: backends send numbers as codes, and sometimes other types."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
