# The two clients: one core, one set of resources, two ways to wait.

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Generic

from ._billing import Billing
from ._chat import Chat
from ._core import Core
from ._files import Files
from ._http import AsyncIo, BlockingIo
from ._messages import Messages
from ._models import Models
from ._modes import Awaiting, Blocking, M
from ._sessions import Sessions
from ._settings import Timeouts, read_settings

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Self


class _Client(Generic[M]):
    def __init__(self, core: Core) -> None:
        self._core = core
        self.chat: Chat[M] = Chat(core)
        self.sessions: Sessions[M] = Sessions(core)
        self.messages: Messages[M] = Messages(core)
        self.files: Files[M] = Files(core)
        self.billing: Billing[M] = Billing(core)
        self.models: Models[M] = Models(core)

    @property
    def base_url(self) -> str:
        return self._core.settings.base_url

    def __repr__(self) -> str:
        # A traceback with variables also shows a client whose constructor failed, and which has no `_core`.
        url = self.base_url if hasattr(self, "_core") else None
        return f"{type(self).__name__}(base_url={url!r})"


class Tollgate(_Client[Blocking]):
    """A client whose calls return when they are done. Safe to use from several threads.

    `api_key` and `base_url` (with or without `/v1`) are also read from TOLLGATE_API_KEY and TOLLGATE_BASE_URL.
    Seconds: `connect_timeout` to connect, `idle_timeout` without a byte, `head_timeout` for an answer that is generated
    and not streamed. `http_client`: your own, with proxies, certificates, hooks; it stays yours to close.

    Close it, or use it in `with`. Raises TollgateError where there is no key or no base URL.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        max_retries: int = 2,
        connect_timeout: float = 10.0,
        idle_timeout: float = 60.0,
        head_timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.Client | None = None,
    ) -> None:
        timeouts = Timeouts(connect_timeout, idle_timeout, head_timeout)
        settings = read_settings(
            api_key, base_url, max_retries=max_retries, timeouts=timeouts, headers=headers
        )
        self._io = BlockingIo(http_client)
        super().__init__(Core(settings, self._io, is_blocking=True))

    def close(self) -> None:
        """Closes its connections, and the streams on them."""
        self._io.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncTollgate(_Client[Awaiting]):
    """A client whose calls are awaited, with asyncio. All else is as with `Tollgate`."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        max_retries: int = 2,
        connect_timeout: float = 10.0,
        idle_timeout: float = 60.0,
        head_timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        timeouts = Timeouts(connect_timeout, idle_timeout, head_timeout)
        settings = read_settings(
            api_key, base_url, max_retries=max_retries, timeouts=timeouts, headers=headers
        )
        self._io = AsyncIo(http_client)
        super().__init__(Core(settings, self._io, is_blocking=False))

    async def close(self) -> None:
        """Closes its connections, and the streams on them."""
        await self._io.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
