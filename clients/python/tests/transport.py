# A network for tests: a test says what the gateway answers, and sees whether the answer was closed.

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import httpx

from tollgate_gateway import AsyncTollgate, Tollgate

Handler = Callable[[httpx.Request], httpx.Response]
AsyncHandler = Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Pieces, and then silence, which makes a read fail."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces
        raise AssertionError("read too far")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        raise AssertionError("read too far")

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


def event(text: str, **more: Any) -> bytes:
    data = {"choices": [{"index": 0, "delta": {"content": text}}], **more}
    return f"data: {json.dumps(data)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def stream(*pieces: bytes, body: Body | None = None) -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=body or Body(*pieces))


def client(handler: Handler, **options: Any) -> Tollgate:
    http_client = httpx.Client(transport=httpx.MockTransport(handler))
    made = Tollgate("tg_live_secret", "http://gate.test", http_client=http_client, **options)
    made._io._sleep = lambda _seconds: None
    return made


def async_client(handler: Handler | AsyncHandler) -> AsyncTollgate:
    http_client = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return AsyncTollgate("tg_live_secret", "http://gate.test", http_client=http_client)
