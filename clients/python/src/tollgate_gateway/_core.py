# One call from beginning to end: sent, tried again, read whole, or refused as an error. Written once, for the blocking
# and the asynchronous client: everything that waits is done by `Io`.

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

from ._errors import APIError, ConnectionError, TollgateError, error_of_answer
from ._http import Answer, Io
from ._request import Call, Outgoing, outgoing_of
from ._retry import is_worth_repeating, said_seconds, wait_seconds
from ._settings import Settings

_LARGEST_ANSWER = 64 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_DISCARD_SECONDS = 3.0
_REFUSAL_SECONDS = 10.0
_MOST_HOPS = 5
_REDIRECTS = (301, 302, 303, 307, 308)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_decode: Callable[[str], Any] = json.JSONDecoder(parse_constant=_refuse).decode


def parse_object(text: str, what: str) -> dict[str, Any]:
    try:
        value = _decode(text)
    except (ValueError, RecursionError) as error:
        raise TollgateError(f"{what} is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise TollgateError(f"{what} is not a JSON object.")
    return value


class Core:
    """`is_blocking`: its `Io` never suspends, and its callers get results; else they get something to await."""

    def __init__(self, settings: Settings, io: Io, *, is_blocking: bool) -> None:
        self.settings = settings
        self.io = io
        self.is_blocking = is_blocking

    async def read_json(self, call: Call) -> dict[str, Any]:
        answer = await self.open(call)
        request_id = answer.headers.get("x-request-id")
        try:
            text = await self._read_text(answer, _LARGEST_ANSWER)
            if text is None:
                raise TollgateError("The answer is too large.")
            return parse_object(text, "The answer")
        except TollgateError as error:
            error.request_id = request_id
            raise
        finally:
            await self.io.close(answer)

    async def finish(self, call: Call) -> None:
        """For calls whose answer is 204."""
        await self.discard(await self.open(call))

    async def discard(self, answer: Answer) -> None:
        """Read to its end, where that is near, for a connection that is left in the middle can't serve again. What it is
        the answer of is done, whatever becomes of the rest."""
        try:
            with suppress(TollgateError):
                await self._read_text(answer, _LARGEST_ERROR, _DISCARD_SECONDS)
        finally:
            await self.io.close(answer)

    async def open(self, call: Call) -> Answer:
        """The head of a 2xx answer. Whoever gets it closes it."""
        out = outgoing_of(call, self.settings)
        retries = max(0, call.options.get("max_retries", self.settings.max_retries))
        if call.upload is not None and not call.upload.is_rewindable:
            retries = 0
        for attempt in range(retries + 1):
            said = None
            try:
                return await self.attempt(call, out)
            except APIError as error:
                if attempt == retries or not error._is_passing:
                    raise
                said = error.retry_after
            except ConnectionError as error:
                is_safe = not (call.is_paid_each_time and error._may_have_been_sent)
                if attempt == retries or not is_safe:
                    raise
            await self.io.sleep(wait_seconds(attempt, said))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def open_stream(self, call: Call) -> Answer:
        return await self.checked_stream(await self.open(call))

    async def checked_stream(self, answer: Answer) -> Answer:
        """Refuses an answer that is not a stream: it has no events, which would look like a stream that broke."""
        await self.unpacked(answer)
        kind = answer.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() == "text/event-stream":
            return answer
        await self.io.close(answer)
        request_id = answer.headers.get("x-request-id")
        raise TollgateError("The answer is not an event stream.", request_id=request_id)

    async def unpacked(self, answer: Answer) -> Answer:
        """Refuses a compressed answer: a piece of it can have any size, and its bytes are not those of the file."""
        coding = answer.headers.get("content-encoding", "identity")
        if coding.strip().lower() == "identity":
            return answer
        await self.io.close(answer)
        raise TollgateError(f"The answer came packed ({coding}), which was not asked for.")

    async def attempt(self, call: Call, out: Outgoing) -> Answer:
        """Sends once, and follows redirects if they are allowed. Any answer but 2xx is raised."""
        hops = 0
        while True:
            answer = await self.io.send(out)
            # The errors contain ids and types, which a server may have copied from the request.
            hide = self.settings.key.hide_in
            answer.headers = {name: hide(value) for name, value in answer.headers.items()}
            if 200 <= answer.status < 300:
                return answer
            location = answer.headers.get("location")
            if not (call.may_redirect and answer.status in _REDIRECTS and location):
                raise await self._refusal(call, answer, min(out.timeouts.idle, _REFUSAL_SECONDS))
            await self.io.close(answer)
            if hops == _MOST_HOPS:
                raise APIError("There are too many redirects.", status=answer.status)
            hops += 1
            try:
                out = self._moved(out, location)
            except ValueError as error:
                raise APIError("The redirect leads nowhere.", status=answer.status) from error

    def _moved(self, out: Outgoing, location: str) -> Outgoing:
        """The key goes only to the gateway's own origin, as do the headers that the user has set."""
        url = urljoin(out.url, location)
        origin = _origin(url)
        if origin == _origin(self.settings.root):
            return replace(out, url=url)
        kept = ("accept", "accept-encoding", "user-agent", "range", "if-range")
        headers = {name: value for name, value in out.headers.items() if name in kept}
        return replace(out, url=url, headers=headers, is_own=False)

    def parse_error(self, text: str, what: str) -> dict[str, Any]:
        """The text without the key, which a server may send back in any spelling."""
        try:
            plain = json.dumps(parse_object(text, what), ensure_ascii=False)
        except RecursionError as error:
            raise TollgateError(f"{what} is not JSON ({error}).") from error
        return parse_object(self.settings.key.hide_in(plain), what)

    async def _refusal(self, call: Call, answer: Answer, seconds: float) -> APIError:
        try:
            text = await self._read_text(answer, _LARGEST_ERROR, seconds)
            body = self.parse_error(text or "", "The answer")
        except TollgateError:
            body = None
        finally:
            await self.io.close(answer)
        headers = answer.headers
        error = error_of_answer(
            answer.status,
            body,
            request_id=headers.get("x-request-id"),
            retry_after=said_seconds(headers),
        )
        error._is_passing = is_worth_repeating(
            answer.status, error.code, headers, is_generating=call.is_generating
        )
        return error

    async def _read_text(
        self, answer: Answer, most: int, seconds: float | None = None
    ) -> str | None:
        """None when it is larger than `most` bytes, or takes too long."""
        body = bytearray()
        end = math.inf if seconds is None else time.monotonic() + seconds
        with nullcontext() if seconds is None else answer.hurried(seconds):
            while True:
                piece = await self.io.read(answer)
                if not piece:
                    return body.decode("utf-8", "replace")
                body += piece
                if len(body) > most or time.monotonic() > end:
                    return None


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    ports = {"http": 80, "https": 443}
    if parts.scheme not in ports or not parts.hostname:
        raise ValueError(f"{parts.scheme} is neither http nor https, or there is no host")
    return parts.scheme, parts.hostname, parts.port or ports[parts.scheme]
