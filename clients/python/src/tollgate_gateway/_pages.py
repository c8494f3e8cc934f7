# Lists: the first page is read at once, the others when they are needed. Holds one page.

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from ._core import Core
from ._errors import TollgateError
from ._modes import completed
from ._request import Call, Options, divided

if TYPE_CHECKING:
    from ._modes import Either


class ListParams(Options, total=False):
    """`after`, `before`: an id of the list. `limit`: items a page, 1 to 100."""

    limit: int
    after: str
    before: str
    order: Literal["asc", "desc"]


T = TypeVar("T")


@dataclass(frozen=True)
class _Listing(Generic[T]):
    core: Core
    call: Call
    item: Callable[[Mapping[str, Any]], T]

    async def read(self) -> dict[str, Any]:
        return await self.core.read_json(self.call)

    def after(self, raw: Mapping[str, Any]) -> _Listing[T]:
        """Reads the next page."""
        data = raw["data"]
        query = dict(self.call.query)
        is_before = query.get("before") and not query.get("after")
        side, name, at = ("before", "first_id", 0) if is_before else ("after", "last_id", -1)
        item = data[at] if data else None
        cursor = raw.get(name) or (item.get("id") if isinstance(item, dict) else None)
        if not isinstance(cursor, str) or not cursor or cursor == query.get(side):
            raise TollgateError("The list has more, but does not say where it goes on.")
        return replace(self, call=replace(self.call, query={**query, side: cursor}))


class _Page(Generic[T]):
    """One page, and the way to the next. Iterating gives the items of this page and of all that follow."""

    def __init__(self, listing: _Listing[T], raw: Mapping[str, Any]) -> None:
        data = raw.get("data")
        items = data if isinstance(data, list) else []
        self.raw = raw
        self.data: Sequence[T] = [listing.item(one) for one in items if isinstance(one, dict)]
        self.first_id: str | None = raw.get("first_id")
        self.last_id: str | None = raw.get("last_id")
        self.has_more: bool = bool(raw.get("has_more")) and isinstance(data, list)
        self._listing = listing

    @property
    def _next(self) -> _Listing[T] | None:
        return self._listing.after(self.raw) if self.has_more else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(data={self.data!r}, has_more={self.has_more!r})"


class Page(_Page[T]):
    """One page of a list. `for item in page` goes over all pages, and reads each one when it gets there."""

    def next_page(self) -> Page[T] | None:
        """None after the last page."""
        after = self._next
        return None if after is None else Page(after, completed(after.read()))

    def pages(self) -> Iterator[Page[T]]:
        page: Page[T] | None = self
        while page is not None:
            yield page
            page = page.next_page()

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data


class AsyncPage(_Page[T]):
    """One page of a list. `async for item in page` goes over all pages, and reads each one when it gets there."""

    async def next_page(self) -> AsyncPage[T] | None:
        """None after the last page."""
        after = self._next
        return None if after is None else AsyncPage(after, await after.read())

    async def pages(self) -> AsyncIterator[AsyncPage[T]]:
        page: AsyncPage[T] | None = self
        while page is not None:
            yield page
            page = await page.next_page()

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.data:
                yield item


class AsyncList(Generic[T]):
    """A list that was asked for: `await` gives its first page, `async for` the items of all pages."""

    def __init__(self, listing: _Listing[T]) -> None:
        self._listing = listing

    async def _first(self) -> AsyncPage[T]:
        return AsyncPage(self._listing, await self._listing.read())

    def __await__(self) -> Generator[Any, None, AsyncPage[T]]:
        return self._first().__await__()

    async def __aiter__(self) -> AsyncIterator[T]:
        async for item in await self._first():
            yield item


def listed(
    core: Core,
    path: Sequence[str],
    params: Mapping[str, Any],
    item: Callable[[Mapping[str, Any]], T],
) -> Either[Page[T], AsyncList[T]]:
    query, options = divided(params)
    listing = _Listing(core, Call("GET", path, query=query, options=options), item)
    made = Page(listing, completed(listing.read())) if core.is_blocking else AsyncList(listing)
    return cast("Either[Page[T], AsyncList[T]]", made)
