# How to loop over something that comes in parts, and leave it, blocking and asynchronous. Leaving the loop closes the
# connection at once (asynchronously: as soon as the event loop gets to it); so does the end of `with`.

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from ._modes import completed
from ._source import Source

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class BlockingLoop(Generic[T]):
    @property
    def _source(self) -> Source[T]:
        raise NotImplementedError

    def __iter__(self) -> Generator[T, None, None]:
        source = self._source
        source.ensure_not_left()
        try:
            while True:
                part = source.pop()
                if part is not None:
                    yield part
                elif not completed(source.more()):
                    return
        finally:
            completed(source.close())

    def __next__(self) -> T:
        source = self._source
        source.ensure_not_left()
        while True:
            part = source.pop()
            if part is not None:
                return part
            if not completed(source.more()):
                raise StopIteration

    def close(self) -> None:
        """Closes the connection. Can be called again."""
        completed(self._source.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # For an object that was never looped over. At the interpreter's end, the modules for closing may be gone.
        with suppress(Exception):
            self._source.forget()


class AsyncLoop(Generic[T]):
    @property
    def _source(self) -> Source[T]:
        raise NotImplementedError

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        source = self._source
        source.ensure_not_left()
        try:
            while True:
                part = source.pop()
                if part is not None:
                    yield part
                elif not await source.more():
                    return
        finally:
            await source.close()

    async def __anext__(self) -> T:
        source = self._source
        source.ensure_not_left()
        while True:
            part = source.pop()
            if part is not None:
                return part
            if not await source.more():
                raise StopAsyncIteration

    async def close(self) -> None:
        """Closes the connection. Can be called again."""
        await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self._source.forget()
