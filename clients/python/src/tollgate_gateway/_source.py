# The source of a loop: the body of an answer (a stream or a file), and of those that continue it after a break. One
# request at a time, with a wait before each, and at most five without progress between them.

from __future__ import annotations

from typing import Generic, TypeVar

from ._core import Core
from ._errors import APIError, ConnectionError, IncompleteStreamError, TollgateError
from ._http import Answer
from ._request import Call, outgoing_of
from ._retry import wait_seconds

_MOST_TRIES = 5

T = TypeVar("T")


class Source(Generic[T]):
    """Subclasses have `pop` and `more`, set `is_over` at the end, and `_tries` to 0 when they see progress."""

    def __init__(self, core: Core, answer: Answer) -> None:
        self.core = core
        self.is_over = False
        self.is_closed = False
        self._answer: Answer | None = answer
        self._tries = 0

    def pop(self) -> T | None:
        """The next part, if it is here already. Never waits."""
        raise NotImplementedError

    async def more(self) -> bool:
        """Waits for more; False at the end."""
        raise NotImplementedError

    @property
    def is_left(self) -> bool:
        """Closed before its end."""
        return self.is_closed and not self.is_over

    def ensure_not_left(self) -> None:
        if self.is_left:
            # An empty loop would look like an empty answer.
            raise TollgateError("This was closed before its end. Ask for it again to read on.")

    async def close(self) -> None:
        self.is_closed = True
        await self._drop()

    def forget(self) -> None:
        """`close` for a finalizer, which can't wait and may be called at any time."""
        answer = self._taken()
        if answer is not None:
            self.core.io.forget(answer)

    def _taken(self) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer

    async def _drop(self) -> None:
        answer = self._taken()
        if answer is not None:
            await self.core.io.close(answer)

    async def _next_piece(self) -> bytes:
        """Empty at the end, and when there is no answer."""
        return await self.core.io.read(self._answer) if self._answer else b""

    async def _ask_again(self, call: Call, cause: TollgateError | None) -> Answer | None:
        """A 2xx; None where another task has left meanwhile. Raises the refusal that will stay, or
        IncompleteStreamError, whose cause is `cause` or what the last attempt failed of."""
        said: float | None = None
        while self._tries < _MOST_TRIES:
            wait = wait_seconds(self._tries, said)
            self._tries += 1
            await self.core.io.sleep(wait)
            if self.is_closed:
                return None
            try:
                answer = await self.core.attempt(call, outgoing_of(call, self.core.settings))
            except ConnectionError as error:
                cause, said = error, None
            except APIError as error:
                if not error._is_passing:
                    raise
                cause, said = error, error.retry_after
            else:
                if not self.is_closed:
                    return answer
                await self.core.io.close(answer)
                return None
        words = f"The connection broke, and {_MOST_TRIES} attempts to go on brought nothing."
        raise IncompleteStreamError(words) from cause
