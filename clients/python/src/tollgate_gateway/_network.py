# What httpx does not offer, done with the network stream of a connection: to shorten a read, to hang up without a lock,
# to see an answer that comes before its request is sent whole. Without such a stream, none of this is done.

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

# After a WriteError, httpcore (the base of httpx) still reads the answer that may be there.
from httpcore import ReadTimeout, WriteError, WriteTimeout

_MADE = ("connection.connect_tcp.complete", "connection.start_tls.complete")
_LOOK_BYTES = 65_536
_LOOK_SECONDS = 0.001
# With a time-out of 0, a socket raises another error.
_SHORTEST_SECONDS = 0.001
# The amount that a writable socket takes without waiting.
_WRITE_BYTES = 16_384


@contextmanager
def hurried(extensions: Mapping[str, Any], seconds: float) -> Iterator[bool]:
    """Inside it, all reads of an answer's body together have this time limit. False when that is not possible."""
    network = _own_stream(extensions)
    if network is None:
        yield False
        return
    read, me, end = network.read, _current(), time.monotonic() + seconds

    def hurried_read(max_bytes: int, timeout: float | None = None) -> Any:
        # If its answer was read whole, the connection may already serve another call.
        if _current() == me:
            timeout = max(end - time.monotonic(), _SHORTEST_SECONDS)
        return read(max_bytes, timeout)

    network.read = hurried_read
    try:
        yield True
    finally:
        if network.read is hurried_read:
            del network.read


def _current() -> object:
    """The task that runs this, or the thread if there is no task."""
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()


def interrupt(extensions: Mapping[str, Any]) -> None:
    """Ends a blocking connection. Closing its socket wakes no thread that waits, and does not tell the server."""
    network = _own_stream(extensions)
    plain = network.get_extra_info("socket") if network is not None else None
    if plain is not None:
        with suppress(OSError):
            plain.shutdown(socket.SHUT_RDWR)


def hang_up(extensions: Mapping[str, Any]) -> None:
    """Closes a blocking connection's socket, and nothing else."""
    interrupt(extensions)
    network = _own_stream(extensions)
    if network is not None:
        network.close()


def _own_stream(extensions: Mapping[str, Any]) -> Any:
    # With HTTP/2, the stream also carries other answers.
    is_own = extensions.get("http_version") in (b"HTTP/1.0", b"HTTP/1.1")
    return extensions.get("network_stream") if is_own else None


class EarlyAnswer:
    """For asyncio, whose transports read nothing while they write, and throw away what has come when the server then
    closes: a refusal would look like a broken connection. So the upload looks before each piece, and stops.

    Sees connections that are made for the request, by `trace`; one that is used again it knows nothing of.
    """

    def __init__(self) -> None:
        self._network: Any = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event in _MADE:
            self._network = _unshared(info["return_value"])

    async def unless_answered(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            if await self._is_here():
                raise WriteError("answered already")
            yield piece

    async def _is_here(self) -> bool:
        network = self._network
        if network is None or not network.get_extra_info("is_readable"):
            return False
        try:
            came = await network.read(_LOOK_BYTES, _LOOK_SECONDS)
        except ReadTimeout:
            # The data belonged to TLS itself.
            return False
        network.read = _given_back(came, network.read)
        return True


def trace_early_answer(event: str, info: Mapping[str, Any]) -> None:
    """The same for a blocking connection, which would wait for a server that reads no more: whoever writes looks for an
    answer while it waits."""
    network = _unshared(info["return_value"]) if event in _MADE else None
    plain = None if network is None else network.get_extra_info("socket")
    if network is None or plain is None:
        return
    read, write = network.read, network.write

    def look() -> None:
        left = [read(_LOOK_BYTES, _LOOK_SECONDS)]
        network.read = lambda most, timeout=None: left.pop() if left else read(most, timeout)
        raise WriteError("answered already")

    def writing(buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _WRITE_BYTES):
            if _is_readable_first(plain, timeout):
                # The data may belong to TLS itself.
                with suppress(ReadTimeout):
                    look()
            write(buffer[at : at + _WRITE_BYTES], timeout)

    network.write = writing


def _is_readable_first(plain: socket.socket, timeout: float | None) -> bool:
    """Waits until it can be read or written. True when something came."""
    with selectors.DefaultSelector() as selector:
        selector.register(plain, selectors.EVENT_READ | selectors.EVENT_WRITE)
        ready = selector.select(timeout)
    if not ready:
        raise WriteTimeout("timed out")
    return bool(ready[0][1] & selectors.EVENT_READ)


def _unshared(network: Any) -> Any:
    """None for HTTP/2, on which anything may come at any time."""
    tls = network.get_extra_info("ssl_object")
    return None if tls is not None and tls.selected_alpn_protocol() == "h2" else network


def _given_back(came: bytes, read: Callable[..., Awaitable[bytes]]) -> Any:
    """A `read` that first returns what was read too early."""
    left = [came]

    async def reading(max_bytes: int, timeout: float | None = None) -> bytes:
        return left.pop() if left else await read(max_bytes, timeout)

    return reading
