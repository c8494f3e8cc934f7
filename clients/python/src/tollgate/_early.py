# An answer that comes before an upload is sent whole, for asyncio. Its transports read nothing while they write, and throw
# away what has come when the server then closes: a refusal would look like a broken connection. So the upload looks
# whether there is an answer before each piece, and stops.

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

# httpx has no errors of its own for this. Of WriteError httpcore knows that an answer may be there all the same.
from httpcore import ReadTimeout, WriteError

_MADE = ("connection.connect_tcp.complete", "connection.start_tls.complete")
_LOOK_BYTES = 65_536
_LOOK_SECONDS = 0.001


class EarlyAnswer:
    """Sees connections that are made for the request, by `trace`; one that is used again it knows nothing of."""

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
