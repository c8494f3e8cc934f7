# Going on with a body that broke, a stream's or a file's: one request at a time, with a wait before each, and not more
# than five without progress between them.

from __future__ import annotations

from collections.abc import Callable

from ._core import Core
from ._errors import APIError, ConnectionError, IncompleteStreamError, TollgateError
from ._http import Answer
from ._request import Call, outgoing_of
from ._retry import wait_seconds

_MOST_TRIES = 5


class Again:
    """`tries` is set to 0 by whoever sees progress."""

    def __init__(self, core: Core, is_left: Callable[[], bool]) -> None:
        self.tries = 0
        self._core = core
        self._is_left = is_left

    async def answer(self, call: Call, cause: TollgateError | None) -> Answer | None:
        """A 2xx; None where another task has left meanwhile. Raises the refusal that will stay, or
        IncompleteStreamError, whose cause is `cause` or what the last attempt failed of."""
        said: float | None = None
        while self.tries < _MOST_TRIES:
            wait = wait_seconds(self.tries, said)
            self.tries += 1
            await self._core.io.sleep(wait)
            if self._is_left():
                return None
            try:
                return await self._unless_left(call)
            except ConnectionError as error:
                cause, said = error, None
            except APIError as error:
                if not error._is_passing:
                    raise
                cause, said = error, error.retry_after
        words = f"The connection broke, and {_MOST_TRIES} attempts to go on brought nothing."
        raise IncompleteStreamError(words) from cause

    async def _unless_left(self, call: Call) -> Answer | None:
        answer = await self._core.attempt(call, outgoing_of(call, self._core.settings))
        if not self._is_left():
            return answer
        await self._core.io.close(answer)
        return None
