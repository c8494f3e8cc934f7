# Files of a session: upload, download, describe, delete.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._download import AsyncDownload, Download, fetch
from ._errors import TollgateError
from ._modes import M, Resource, call, listing, opening
from ._pages import ListParams, listed
from ._record import Record
from ._request import Call
from ._upload import OnProgress, Uploadable, content_of, multipart

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, Page
    from ._request import Options


class FileListParams(ListParams, total=False):
    session_id: str


_PATH = ("api", "files")


@dataclass(frozen=True)
class File(Record):
    """Times are Unix seconds; `sha256` is in hex."""

    id: str = ""
    bytes: int = 0
    created_at: int = 0
    expires_at: int | None = None
    filename: str = ""
    purpose: str = ""
    status: str = ""
    session_id: str = ""
    content_type: str = ""
    sha256: str = ""


class Files(Resource[M]):
    @call
    async def upload(
        self,
        file: Uploadable,
        *,
        session_id: str,
        filename: str | None = None,
        content_type: str | None = None,
        purpose: str | None = None,
        expires_after: int | None = None,
        sha256: str | None = None,
        on_progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> File:
        """Sends a file in pieces: a path, bytes, a file opened with "rb", or something that gives bytes.

        `expires_after` is in seconds. With `sha256` (hex) the gateway refuses what arrives otherwise. `on_progress` is
        told the bytes sent so far and the file's size, None where that is not known: of what has neither a length nor
        a `seek`. Tried again only where the source can be read again.
        """
        if not session_id:
            raise TollgateError("session_id is empty. Nothing was sent.")
        fields = {
            "session_id": session_id,
            "purpose": purpose,
            "expires_after": expires_after,
            "sha256": sha256,
        }
        form = multipart(
            content_of(file),
            fields,
            filename=filename,
            content_type=content_type,
            on_progress=on_progress,
        )
        request = Call("POST", (*_PATH, "upload"), upload=form, options=options)
        return File.of(await self._core.read_json(request))

    @opening
    async def content(
        self,
        file_id: str,
        *,
        start: int = 0,
        etag: str | None = None,
        on_progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> Either[Download, AsyncDownload]:
        """The file's bytes. With `start` and `etag` an earlier download goes on, unless the file has changed since:
        then IncompleteStreamError. `on_progress` is told the bytes of the file so far, those before `start` included, and
        the file's size, None where the gateway does not tell it.
        """
        request = Call("GET", (*_PATH, file_id), options=options, may_redirect=True)
        return await fetch(self._core, request, start=start, etag=etag, on_progress=on_progress)

    @call
    async def retrieve(self, file_id: str, **options: Unpack[Options]) -> File:
        """The file's properties, without its content."""
        request = Call("GET", (*_PATH, file_id, "metadata"), options=options)
        return File.of(await self._core.read_json(request))

    @call
    async def delete(self, file_id: str, **options: Unpack[Options]) -> None:
        await self._core.finish(Call("DELETE", (*_PATH, file_id), options=options))

    @listing
    def list(self, **params: Unpack[FileListParams]) -> Either[Page[File], AsyncList[File]]:
        """Newest first; of one session, or all files of the account."""
        return listed(self._core, _PATH, params, File.of)
