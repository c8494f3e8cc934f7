# What httpx has no way for, done with the network stream that it shows of a connection: to hurry a read, to hang up without
# a lock, to see an answer that comes before its request is sent whole. Without such a stream nothing of it is done.

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

# Of this one httpcore, which httpx stands on, knows that an answer may be there all the same.
from httpcore import ReadTimeout, WriteError

_MADE = ("connection.connect_tcp.complete", "connection.start_tls.complete")
_LOOK_BYTES = 65_536
_LOOK_SECONDS = 0.001


@contextmanager
def hurried(extensions: Mapping[str, Any], seconds: float) -> Iterator[bool]:
    """Within it an answer's body is waited for only so long, whatever the time-out is. False where that can't be."""
    network = _own_stream(extensions)
    if network is None:
        yield False
        return
    read = network.read
    network.read = lambda max_bytes, timeout=None: read(max_bytes, seconds)
    try:
        yield True
    finally:
        del network.read


def interrupt(extensions: Mapping[str, Any]) -> None:
    """Ends a blocking connection. To close its socket would not wake a thread that waits for it, nor tell the server."""
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
    # Of HTTP/2 it is also that of other answers.
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
            self._network = info["return_value"]

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
            # What came was TLS's own.
            return False
        network.read = _given_back(came, network.read)
        return True


def _given_back(came: bytes, read: Callable[..., Awaitable[bytes]]) -> Any:
    """A `read` that first gives what was read too early."""
    left = [came]

    async def reading(max_bytes: int, timeout: float | None = None) -> bytes:
        return left.pop() if left else await read(max_bytes, timeout)

    return reading
