# An upload as multipart/form-data: in pieces, never whole in memory, with its length if it is known. What can be read
# again is sent again when an attempt fails.

from __future__ import annotations

import asyncio
import mimetypes
import os
import secrets
import stat
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Optional, Union, cast

from ._errors import TollgateError

_PIECE_BYTES = 256 * 1024

OnProgress = Callable[[int, Optional[int]], object]
"""Gets the bytes of the file sent so far, and its size: None if the size is unknown."""

Uploadable = Union[
    str, "os.PathLike[str]", bytes, bytearray, BinaryIO, Iterable[bytes], AsyncIterable[bytes]
]
"""A path, bytes, a file opened in binary mode, or something that gives bytes (for `AsyncTollgate` also one to `async
for` over). Files and paths are read as they are sent."""


@dataclass(frozen=True)
class Content:
    """`pieces` starts again at each call; it returns `Iterator` or `AsyncIterator`."""

    pieces: Callable[[], Any]
    size: int | None = None
    is_rewindable: bool = True
    is_async: bool = False
    blocks: bool = False
    """Whether reading may wait for a disk."""
    name: str | None = None


@dataclass(frozen=True)
class Multipart:
    content: Content
    before: bytes
    after: bytes
    content_type: str
    on_progress: Callable[[int], object]
    """Gets the number of the file's bytes that have been sent."""

    @property
    def size(self) -> int | None:
        size = self.content.size
        return None if size is None else len(self.before) + size + len(self.after)

    @property
    def is_rewindable(self) -> bool:
        return self.content.is_rewindable

    def pieces(self) -> Iterator[bytes]:
        if self.content.is_async:
            raise TollgateError(
                "Tollgate can't wait for an asynchronous source. Use AsyncTollgate."
            )
        sent = 0
        yield self.before
        for piece in self.content.pieces():
            if piece:
                yield piece
                sent += len(piece)
                self.on_progress(sent)
        yield self.after

    async def async_pieces(self) -> AsyncIterator[bytes]:
        sent = 0
        yield self.before
        async for piece in self._awaited():
            if piece:
                yield piece
                sent += len(piece)
                self.on_progress(sent)
        yield self.after

    def _awaited(self) -> AsyncIterator[bytes]:
        pieces = self.content.pieces()
        if self.content.is_async:
            return cast("AsyncIterator[bytes]", pieces)
        return _in_threads(pieces) if self.content.blocks else _at_once(pieces)


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    # The event loop must go on while this waits for a disk.
    while True:
        piece = await asyncio.to_thread(next, pieces, None)
        if piece is None:
            return
        yield piece


async def _at_once(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def multipart(
    content: Content,
    fields: Mapping[str, Any],
    *,
    filename: str | None,
    content_type: str | None,
    on_progress: OnProgress | None,
) -> Multipart:
    """The fields go before the file: the gateway must know the session before the first byte of the file."""
    boundary = f"tollgate-{secrets.token_hex(16)}"
    name = filename or content.name or "file"
    kind = content_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    if not kind.isascii() or not kind.isprintable():
        raise TollgateError("content_type has characters that no type has.")
    head = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
        if value is not None
    ]
    head.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_quoted(name)}"\r\n'
        f"Content-Type: {kind}\r\n\r\n"
    )
    return Multipart(
        content=content,
        before="".join(head).encode("utf-8", "replace"),
        after=f"\r\n--{boundary}--\r\n".encode(),
        content_type=f"multipart/form-data; boundary={boundary}",
        on_progress=_rising(on_progress, content.size),
    )


def _rising(tell: OnProgress | None, total: int | None) -> Callable[[int], object]:
    """A second attempt begins at 0 again, which is not reported as progress."""
    most = 0

    def told(sent: int) -> None:
        nonlocal most
        if tell and sent > most:
            most = sent
            tell(sent, total)

    return told


def _quoted(name: str) -> str:
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def content_of(file: Uploadable) -> Content:
    if isinstance(file, (str, os.PathLike)):
        return _of_path(file)
    if isinstance(file, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(file))
    if hasattr(file, "read"):
        return _of_file(cast("BinaryIO", file))
    if isinstance(file, AsyncIterable):
        is_once = isinstance(file, AsyncIterator)
        return Content(file.__aiter__, is_rewindable=not is_once, is_async=True)
    if isinstance(file, Iterable):
        is_once = isinstance(file, Iterator)
        return Content(file.__iter__, is_rewindable=not is_once, blocks=True)
    raise TypeError("file is a path, bytes, a binary file, or something that gives bytes.")


def _of_path(path: str | os.PathLike[str]) -> Content:
    found = os.stat(path)
    is_plain = stat.S_ISREG(found.st_mode)

    def pieces() -> Iterator[bytes]:
        with open(path, "rb") as file:
            yield from _read(file)

    size = found.st_size if is_plain else None
    name = os.path.basename(os.fspath(path))
    return Content(pieces, size=size, is_rewindable=is_plain, blocks=True, name=name)


def _of_bytes(whole: bytes) -> Content:
    def pieces() -> Iterator[bytes]:
        for start in range(0, len(whole), _PIECE_BYTES):
            yield whole[start : start + _PIECE_BYTES]

    return Content(pieces, size=len(whole))


def _of_file(file: BinaryIO) -> Content:
    if not isinstance(file.read(0), bytes):
        raise TypeError('The file gives no bytes. Open it with "rb".')
    path = getattr(file, "name", None)
    name = os.path.basename(path) if isinstance(path, str) else None
    if not (hasattr(file, "seekable") and file.seekable()):
        return Content(lambda: _read(file), is_rewindable=False, blocks=True, name=name)
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)

    def pieces() -> Iterator[bytes]:
        file.seek(start)
        yield from _read(file)

    return Content(pieces, size=size, blocks=True, name=name)


def _read(file: BinaryIO) -> Iterator[bytes]:
    while True:
        piece = file.read(_PIECE_BYTES)
        if not piece:
            return
        yield piece
