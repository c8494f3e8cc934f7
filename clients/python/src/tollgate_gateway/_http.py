# The two ways to the network, blocking and asynchronous, and the only file that uses httpx. Sends one request, reads
# one piece, waits; never retries, redirects or reads ahead. All failures become errors of this package.

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from typing import Any, Optional, Protocol

import httpx

from ._errors import ConnectionError, TimeoutError, TollgateError
from ._network import EarlyAnswer, hang_up, hurried, interrupt, trace_early_answer
from ._request import Outgoing
from ._upload import Multipart

# With httpx's own limit of 100, the 101st open stream would wait until another one ends.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
_NOTHING_KEPT = httpx.Limits(max_connections=None, max_keepalive_connections=0)
# Otherwise a user name in the URL of a proxy or redirect would replace the key.
_NO_AUTH = httpx.Auth()
_UNSENDABLE = (
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    UnicodeEncodeError,
)
# How long to wait for the end of an answer after its last event, so that the connection can be used again.
_END_SECONDS = 0.2
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


_Place = tuple[Optional[str], Optional[int]]


@lru_cache(maxsize=2)
def _certificates(_file: _Place, _folder: _Place) -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _trusted() -> ssl.SSLContext:
    """Cached, because it takes 20 ms: while the environment names the same certificates, and these stay."""
    return _certificates(_place("SSL_CERT_FILE"), _place("SSL_CERT_DIR"))


def _place(variable: str) -> _Place:
    path = os.environ.get(variable)
    try:
        return path, os.stat(path).st_mtime_ns if path else None
    except OSError:
        return path, None


class Answer:
    """The head of an answer, and its body, a piece at a time."""

    __slots__ = ("_is_cut", "_pieces", "_response", "headers", "status")

    def __init__(self, response: httpx.Response, pieces: Any) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._pieces = pieces
        # Interrupted by a KeyboardInterrupt or a CancelledError: a later read would look like the end.
        self._is_cut = False

    def hurried(self, seconds: float) -> AbstractContextManager[bool]:
        """Inside it, all reads of the body together have this time limit. False when that is not possible."""
        return hurried(self._response.extensions, seconds)

    def check(self) -> None:
        if self._is_cut:
            raise ConnectionError("The answer was lost when reading it was interrupted.")


class Io(Protocol):
    """What the core asks of the network. The blocking one never suspends, so that plain code can run the core."""

    async def send(self, out: Outgoing) -> Answer: ...

    async def read(self, answer: Answer) -> bytes:
        """The next piece; empty at the end."""
        ...

    async def close(self, answer: Answer) -> None:
        """Returns the connection to the pool if the body was read to its end, else closes it."""
        ...

    async def finish(self, answer: Answer) -> None:
        """`close` for a body that is no longer needed, but whose end may be near."""
        ...

    def forget(self, answer: Answer) -> None:
        """`close` for a finalizer: may be called in any thread, at any time, and does not wait."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class BlockingIo:
    def __init__(self, client: httpx.Client | None) -> None:
        self._is_own = client is None
        self._client = client or httpx.Client(limits=_LIMITS, verify=_trusted())
        self._uploads = client
        self._forgotten: deque[Answer] = deque()
        self._sleep = time.sleep

    async def send(self, out: Outgoing) -> Answer:
        self._close_forgotten()
        try:
            client, request = self._prepared(out)
            response = client.send(request, stream=True, auth=_NO_AUTH, follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
            raise _told(error) from error
        _move_on(request, out)
        return Answer(response, _decoded(response, response.iter_raw, response.iter_bytes))

    async def read(self, answer: Answer) -> bytes:
        answer.check()
        pieces: Iterator[bytes] = answer._pieces
        try:
            return next(pieces, b"")
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _told(error) from error
        except BaseException:
            answer._is_cut = True
            raise

    async def close(self, answer: Answer) -> None:
        if not answer._response.is_closed:
            interrupt(answer._response.extensions)
        answer._response.close()

    async def finish(self, answer: Answer) -> None:
        with suppress(TollgateError), answer.hurried(_END_SECONDS) as is_hurried:
            if is_hurried:
                await self.read(answer)
        answer._response.close()

    def forget(self, answer: Answer) -> None:
        # Not `close`: it takes the lock of httpcore's pool, which the interrupted code may hold.
        hang_up(answer._response.extensions)
        self._forgotten.append(answer)

    async def sleep(self, seconds: float) -> None:
        self._sleep(seconds)

    def end(self) -> None:
        self._close_forgotten()
        if self._is_own:
            self._client.close()
            if self._uploads is not None:
                self._uploads.close()

    def _close_forgotten(self) -> None:
        while self._forgotten:
            with suppress(IndexError):
                self._forgotten.popleft()._response.close()

    def _prepared(self, out: Outgoing) -> tuple[httpx.Client, httpx.Request]:
        if not isinstance(out.body, Multipart):
            return self._client, _request(self._client, out, out.body)
        # Each on a connection of its own, because only a new connection can be traced.
        if self._uploads is None:
            self._uploads = httpx.Client(limits=_NOTHING_KEPT, verify=_trusted())
        client = self._uploads
        request = _request(client, out, out.body.pieces())
        request.extensions["trace"] = trace_early_answer
        return client, request


class AsyncIo:
    def __init__(self, client: httpx.AsyncClient | None) -> None:
        self._is_own = client is None
        self._client = client or httpx.AsyncClient(limits=_LIMITS, verify=_trusted())
        self._uploads = client
        self._closing: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleep = asyncio.sleep

    async def send(self, out: Outgoing) -> Answer:
        self._move_to(asyncio.get_running_loop())
        try:
            client, request = self._prepared(out)
            response = await client.send(
                request, stream=True, auth=_NO_AUTH, follow_redirects=False
            )
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
            raise _told(error) from error
        _move_on(request, out)
        return Answer(response, _decoded(response, response.aiter_raw, response.aiter_bytes))

    async def read(self, answer: Answer) -> bytes:
        answer.check()
        pieces: AsyncIterator[bytes] = answer._pieces
        try:
            return await pieces.__anext__()
        except StopAsyncIteration:
            return b""
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _told(error) from error
        except BaseException:
            answer._is_cut = True
            raise

    async def close(self, answer: Answer) -> None:
        await answer._response.aclose()

    async def finish(self, answer: Answer) -> None:
        with suppress(TollgateError), answer.hurried(_END_SECONDS) as is_hurried:
            if is_hurried:
                await self.read(answer)
        await answer._response.aclose()

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_own and self._loop is not None and self._loop.is_closed():
            # As after each `asyncio.run`: the connections ended with the loop.
            self._client = httpx.AsyncClient(limits=_LIMITS, verify=_trusted())
            self._uploads = None
        self._loop = loop

    def forget(self, answer: Answer) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_later, answer)

    def _close_later(self, answer: Answer) -> None:
        # Kept here, because an event loop holds its tasks weakly.
        closing = asyncio.ensure_future(answer._response.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)

    async def end(self) -> None:
        self._move_to(asyncio.get_running_loop())
        if self._is_own:
            await self._client.aclose()
            if self._uploads is not None:
                await self._uploads.aclose()

    def _prepared(self, out: Outgoing) -> tuple[httpx.AsyncClient, httpx.Request]:
        if not isinstance(out.body, Multipart):
            return self._client, _request(self._client, out, out.body)
        # Each on a connection of its own: see EarlyAnswer.
        if self._uploads is None:
            self._uploads = httpx.AsyncClient(limits=_NOTHING_KEPT, verify=_trusted())
        client = self._uploads
        early = EarlyAnswer()
        request = _request(client, out, early.unless_answered(out.body.async_pieces()))
        request.extensions["trace"] = early.trace
        return client, request


def _request(client: httpx.Client | httpx.AsyncClient, out: Outgoing, body: Any) -> httpx.Request:
    timeouts = out.timeouts
    timeout = httpx.Timeout(
        connect=timeouts.connect, read=out.head_seconds, write=timeouts.idle, pool=timeouts.connect
    )
    if out.is_own:
        return client.build_request(
            out.method, out.url, headers=dict(out.headers), content=body, timeout=timeout
        )
    # Not through the client: its default headers and cookies are for the gateway only.
    extensions = {"timeout": timeout.as_dict()}
    return httpx.Request(out.method, out.url, headers=dict(out.headers), extensions=extensions)


def _move_on(request: httpx.Request, out: Outgoing) -> None:
    """The head has come: from now on the body must move. httpcore reads this time-out when the first piece is read."""
    request.extensions["timeout"]["read"] = out.timeouts.idle


def _decoded(response: httpx.Response, raw: Any, decoded: Any) -> Any:
    # A hook of the user's own client may have read it already; then it is only available decoded.
    return decoded() if "content-encoding" in response.headers or response.is_closed else raw()


def _told(error: Exception) -> TollgateError:
    if isinstance(error, _UNSENDABLE):
        return TollgateError(f"The request could not be sent as it is: {error}")
    if isinstance(error, httpx.StreamError):
        return TollgateError("The answer was closed already.")
    kind = TimeoutError if isinstance(error, httpx.TimeoutException) else ConnectionError
    words = "took too long" if kind is TimeoutError else "failed"
    told = kind(f"The connection {words} ({str(error) or type(error).__name__}).")
    told._may_have_been_sent = not isinstance(error, _NEVER_SENT)
    return told
