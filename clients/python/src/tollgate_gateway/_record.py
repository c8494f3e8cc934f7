# What the gateway's objects have in common: known fields as attributes, and everything that came in `raw`. Reading one
# never fails: a field that is missing or of another type than expected has its default, or what came.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Record:
    """Fields that this version does not know are in `raw`, the JSON object as it came."""

    raw: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    _nested: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        known = {name: raw[name] for name in _names(cls) if name in raw}
        for name, read in cls._nested.items():
            if name in known:
                known[name] = read(known[name])
        made = cls(**known)
        object.__setattr__(made, "raw", raw)
        return made


R = TypeVar("R", bound=Record)


def one_of(kind: type[R]) -> Callable[[Any], R | None]:
    return lambda value: kind.of(value) if isinstance(value, dict) else None


def each_of(kind: type[R]) -> Callable[[Any], Sequence[R]]:
    def made(value: Any) -> Sequence[R]:
        items = value if isinstance(value, list) else []
        return [kind.of(item) for item in items if isinstance(item, dict)]

    return made


def _names(kind: type[Record]) -> Sequence[str]:
    found = _known_names.get(kind)
    if found is None:
        found = [known.name for known in fields(kind) if known.name != "raw"]
        _known_names[kind] = found
    return found


_known_names: dict[type[Record], Sequence[str]] = {}
