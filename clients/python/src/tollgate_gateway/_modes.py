# Resources are written once, as coroutines; these decorators make of each method what its client's user calls: a plain
# one on `Tollgate`, one to await on `AsyncTollgate`. For type checkers they are descriptors that know which of the two.

from __future__ import annotations

from collections.abc import Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from ._core import Core

T = TypeVar("T")


class Blocking:
    """Marks what belongs to `Tollgate`: calls return when they are done."""


class Awaiting:
    """Marks what belongs to `AsyncTollgate`: calls are awaited."""


M = TypeVar("M", Blocking, Awaiting)


class Resource(Generic[M]):
    def __init__(self, core: Core) -> None:
        self._core = core


def completed(work: Coroutine[Any, Any, T]) -> T:
    """Runs to its end, in one step, a coroutine that never suspends because its `Io` blocks."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    work.close()
    raise AssertionError("unreachable: a blocking Io does not suspend")


def delivered(core: Core, work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result to users of the blocking client, and an awaitable to those of the other."""
    return completed(work) if core.is_blocking else work


if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
    B = TypeVar("B")
    A = TypeVar("A")

    B_co = TypeVar("B_co", covariant=True)
    A_co = TypeVar("A_co", covariant=True)

    class Either(Generic[B_co, A_co]):
        """Returned where the two clients' users get different classes: the blocking one's, the other's."""

    class call(Generic[P, T]):
        def __init__(
            self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
        ) -> None: ...
        @overload
        def __get__(self, of: Resource[Blocking], owner: Any) -> Callable[P, T]: ...
        @overload
        def __get__(
            self, of: Resource[Awaiting], owner: Any
        ) -> Callable[P, Coroutine[Any, Any, T]]: ...
        def __get__(self, of: Any, owner: Any) -> Any: ...

    class opening(Generic[P, B, A]):
        def __init__(
            self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Either[B, A]]]
        ) -> None: ...
        @overload
        def __get__(self, of: Resource[Blocking], owner: Any) -> Callable[P, B]: ...
        @overload
        def __get__(
            self, of: Resource[Awaiting], owner: Any
        ) -> Callable[P, Coroutine[Any, Any, A]]: ...
        def __get__(self, of: Any, owner: Any) -> Any: ...

    class listing(Generic[P, B, A]):
        def __init__(self, method: Callable[Concatenate[Any, P], Either[B, A]]) -> None: ...
        @overload
        def __get__(self, of: Resource[Blocking], owner: Any) -> Callable[P, B]: ...
        @overload
        def __get__(self, of: Resource[Awaiting], owner: Any) -> Callable[P, A]: ...
        def __get__(self, of: Any, owner: Any) -> Any: ...

else:

    def call(method):
        @wraps(method)
        def called(self, *args, **kwargs):
            return delivered(self._core, method(self, *args, **kwargs))

        return called

    opening = call

    def listing(method):
        return method
