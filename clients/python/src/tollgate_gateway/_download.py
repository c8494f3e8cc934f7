# A download, in pieces. When the connection breaks, it continues at the byte where it was, as long as the file is
# still the same; two files are never mixed.

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Union, cast
from urllib.parse import unquote

from ._core import Core
from ._errors import ConnectionError, IncompleteStreamError, TollgateError
from ._http import Answer
from ._loop import AsyncLoop, BlockingLoop
from ._request import Call
from ._source import Source
from ._upload import OnProgress

if TYPE_CHECKING:
    from ._modes import Either

Target = Union[str, "os.PathLike[str]", BinaryIO]


class Fetcher(Source[bytes]):
    """`start`: the first byte of the first answer. Counts bytes of the whole file."""

    def __init__(
        self,
        core: Core,
        call: Call,
        answer: Answer,
        *,
        start: int,
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(core, answer)
        self.headers: Mapping[str, str] = answer.headers
        self.start = self.position = start
        self.etag: str | None = answer.headers.get("etag")
        self.size = _size_of(answer)
        self._call = call
        self._on_progress: OnProgress | None = on_progress
        self._piece = b""

    def pop(self) -> bytes | None:
        piece, self._piece = self._piece, b""
        return piece or None

    async def more(self) -> bool:
        self.ensure_not_left()
        if self.is_over:
            await self._drop()
            return False
        cause: TollgateError | None = None
        try:
            piece = await self._next_piece()
        except ConnectionError as error:
            piece, cause = b"", error
        if piece:
            self._take(piece)
        elif cause is None and self._answer and self.size in (None, self.position):
            self.is_over = True
        elif not self.is_closed:
            await self._go_on(cause)
        return True

    async def close(self) -> None:
        self._piece = b""
        await super().close()

    def _take(self, piece: bytes) -> None:
        self._tries = 0
        self._piece = piece
        self.position += len(piece)
        if self._on_progress is not None:
            self._on_progress(self.position, self.size)

    async def _go_on(self, cause: TollgateError | None) -> None:
        await self._drop()
        if not self.etag or self.etag.startswith("W/"):
            words = "The download broke, and has no strong ETag to go on by."
            raise IncompleteStreamError(words) from cause
        headers = {"range": f"bytes={self.position}-", "if-range": self.etag}
        answer = await self._ask_again(replace(self._call, headers=headers), cause)
        if answer is not None:
            self._answer = await begins_at(self.core, answer, self.position, self.etag)
            if self.size is None:
                self.size = _size_of(answer)


async def begins_at(core: Core, answer: Answer, start: int, etag: str | None) -> Answer:
    """Refuses an answer that begins at another byte or belongs to another file."""
    await core.unpacked(answer)
    is_same = not etag or (answer.headers.get("etag") or etag) == etag
    first = 0
    if answer.status == 206:
        said = re.match(r"\s*bytes (\d+)-", answer.headers.get("content-range", ""))
        first = int(said[1]) if said else -1
    if first == start and is_same:
        return answer
    await core.io.close(answer)
    raise IncompleteStreamError("The file has changed, or the server can't go on in its middle.")


async def fetch(
    core: Core, call: Call, *, start: int, etag: str | None, on_progress: OnProgress | None
) -> Either[Download, AsyncDownload]:
    headers = {"range": f"bytes={start}-"} if start else {}
    if start and etag:
        headers["if-range"] = etag
    answer = await core.open(replace(call, headers=headers))
    await begins_at(core, answer, start, etag if start else None)
    fetcher = Fetcher(core, call, answer, start=start, on_progress=on_progress)
    made = Download(fetcher) if core.is_blocking else AsyncDownload(fetcher)
    return cast("Either[Download, AsyncDownload]", made)


class _Head:
    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    @property
    def _source(self) -> Fetcher:
        return self._fetcher

    @property
    def content_type(self) -> str | None:
        return self._source.headers.get("content-type")

    @property
    def filename(self) -> str | None:
        """The name given at the upload, without a path."""
        name = _filename_of(self._source.headers.get("content-disposition", "")) or ""
        last = re.split(r"[/\\]", name)[-1]
        return None if last in ("", ".", "..") else last

    @property
    def size(self) -> int | None:
        """Size of the whole file in bytes."""
        return self._source.size

    @property
    def position(self) -> int:
        """Bytes of the whole file so far: with `etag`, a later download can continue from here."""
        return self._source.position

    @property
    def etag(self) -> str | None:
        return self._source.etag

    @property
    def _mode(self) -> str:
        return "ab" if self._source.start else "wb"


class Download(_Head, BlockingLoop[bytes]):
    """A file's content. Iterate for its pieces, or `read`, or `write_to`."""

    def read(self) -> bytes:
        """The whole content, in memory."""
        return b"".join(self)

    def write_to(self, target: Target) -> int:
        """Writes to a path or a binary file, and returns the number of bytes. A continued download is appended."""
        if isinstance(target, (str, os.PathLike)):
            with open(target, self._mode) as file:
                return self.write_to(cast("BinaryIO", file))
        return sum(_put(target, piece) for piece in self)


class AsyncDownload(_Head, AsyncLoop[bytes]):
    """A file's content. Iterate for its pieces, or `read`, or `write_to`."""

    async def read(self) -> bytes:
        """The whole content, in memory."""
        return b"".join([piece async for piece in self])

    async def write_to(self, target: Target) -> int:
        """Writes to a path or a binary file, and returns the number of bytes. A continued download is appended."""
        if isinstance(target, (str, os.PathLike)):
            with await asyncio.to_thread(open, target, self._mode) as file:
                return await self.write_to(cast("BinaryIO", file))
        written = 0
        async for piece in self:
            written += await asyncio.to_thread(_put, target, piece)
        return written


def _put(target: BinaryIO, piece: bytes) -> int:
    """Writes all of it: a file without a buffer may take only a part at a time."""
    left = memoryview(piece)
    while left:
        left = left[target.write(left) :]
    return len(piece)


def _size_of(answer: Answer) -> int | None:
    if answer.status == 206:
        total = answer.headers.get("content-range", "").rpartition("/")[2]
    else:
        total = answer.headers.get("content-length", "")
    return int(total) if total.isascii() and total.isdigit() else None


def _filename_of(disposition: str) -> str | None:
    exact = re.search(r"filename\*\s*=\s*UTF-8'[^']*'([^;\s]+)", disposition, re.IGNORECASE)
    if exact:
        return unquote(exact[1])
    quoted = re.search(
        r'filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]+))', disposition, re.IGNORECASE
    )
    if quoted is None:
        return None
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted[1] is not None else quoted[2]
