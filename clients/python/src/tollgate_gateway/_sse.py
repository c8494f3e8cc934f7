# Server-sent events from bytes as they come: any line ending, any cut. One pass over the bytes; holds one event and
# what was read with it. Knows neither JSON nor what the events mean.

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ._errors import TollgateError

_LARGEST_EVENT = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# A line has its data after "data: ".
_LARGEST_LINE = _LARGEST_EVENT + 6


class Event(NamedTuple):
    id: str | None
    """The id that this event sets; None if it sets none."""
    data: str


class Parser:
    """`feed` it, then take `events` from the left."""

    __slots__ = ("_after_cr", "_at_start", "_data", "_id", "_tail", "events")

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        # The line that is not complete yet. Never joined by "+": that would copy a long event at each piece.
        self._tail = bytearray()
        self._data: bytes | bytearray | None = None
        self._id: str | None = None
        self._at_start = True
        self._after_cr = False

    def feed(self, piece: bytes) -> None:
        if self._at_start:
            piece = self._without_bom(piece)
        if self._after_cr and piece:
            self._after_cr = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines and self._tail:
            self._tail += lines[0]
            lines[0] = bytes(self._tail)
            self._tail.clear()
        for line in lines:
            self._take(line)
        self._tail += rest
        if len(self._tail) > _LARGEST_LINE:
            raise _too_large()

    def _without_bom(self, piece: bytes) -> bytes:
        start = bytes(self._tail + piece)
        self._tail.clear()
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._tail += start
            return b""
        self._at_start = False
        return start[len(_BOM) :] if start.startswith(_BOM) else start

    def _take(self, line: bytes) -> None:
        if not line:
            self._dispatch()
        elif line.startswith(b"data:"):
            self._add(line[6:] if line.startswith(b" ", 5) else line[5:])
        elif line.startswith(b"id:"):
            value = line[4:] if line.startswith(b" ", 3) else line[3:]
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif line == b"data":
            self._add(b"")
        elif line == b"id":
            self._id = ""

    def _add(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if len(self._data) > _LARGEST_EVENT:
            raise _too_large()

    def _dispatch(self) -> None:
        if self._data:
            self.events.append(Event(self._id, self._data.decode("utf-8", "replace")))
        self._data = None
        self._id = None


def _too_large() -> TollgateError:
    return TollgateError(f"An event is larger than {_LARGEST_EVENT // 2**20} MiB.")
