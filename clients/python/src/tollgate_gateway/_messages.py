# Messages of a session: sent, read, resumed, cancelled.

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, cast, overload

from ._chat import ChatParams
from ._errors import TollgateError
from ._message import Message
from ._modes import Awaiting, Blocking, M, Resource, call, delivered, listing, opening
from ._pages import listed
from ._reader import Reader, resume_call
from ._request import Call, Options, divided
from ._stream import AsyncMessageStream, MessageStream, message_stream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, ListParams, Page


class MessageParams(ChatParams, total=False):
    """What a message takes beside its content, Chat Completions' parameters among it.

    `messages`: instead of the content, the new turns, the last of the user's or a tool's. `files`: ids of the
    session's files, put behind the content. `on_disconnect`: what leaving the stream does to the generation.
    """

    messages: Sequence[Mapping[str, Any]]
    model: str | None
    files: Sequence[str]
    on_disconnect: Literal["continue", "cancel"]


Content = Union[str, Sequence[Mapping[str, Any]]]
"""A text, or parts: `{"type": "text"}`, `{"type": "image_url"}`, `{"type": "file"}`."""


class Messages(Resource[M]):
    @overload
    def create(
        self: Messages[Blocking],
        session_id: str,
        content: Content | None = ...,
        *,
        stream: Literal[True] = ...,
        **params: Unpack[MessageParams],
    ) -> MessageStream: ...
    @overload
    def create(
        self: Messages[Blocking],
        session_id: str,
        content: Content | None = ...,
        *,
        stream: Literal[False],
        **params: Unpack[MessageParams],
    ) -> Message: ...
    @overload
    def create(
        self: Messages[Awaiting],
        session_id: str,
        content: Content | None = ...,
        *,
        stream: Literal[True] = ...,
        **params: Unpack[MessageParams],
    ) -> Coroutine[Any, Any, AsyncMessageStream]: ...
    @overload
    def create(
        self: Messages[Awaiting],
        session_id: str,
        content: Content | None = ...,
        *,
        stream: Literal[False],
        **params: Unpack[MessageParams],
    ) -> Coroutine[Any, Any, Message]: ...
    def create(
        self, session_id: str, content: Any = None, *, stream: bool = True, **params: Any
    ) -> Any:
        """Sends a message and streams its answer; with `stream=False`, waits and gives the whole answer.

        The answer is generated to its end whoever reads it, unless it is cancelled. However often it has to be sent,
        it is one message: an `idempotency_key` makes this so for several calls. Raises ConflictError
        (`session_busy`) while the session generates, InsufficientBalanceError, and the others.
        """
        return delivered(self._core, self._create(session_id, content, stream, params))

    async def _create(
        self, session_id: str, content: Any, stream: bool, params: Mapping[str, Any]
    ) -> Any:
        path = _path(session_id)
        fields, options = divided(params)
        files = fields.pop("files", None)
        if files:
            content = _with_files(content, files)
        body = {**({} if content is None else {"content": content}), **fields, "stream": stream}
        request = Call(
            "POST",
            path,
            body=body,
            options=options,
            streams=stream,
            is_creating=True,
            is_generating=True,
        )
        if not stream:
            return Message.of(await self._core.read_json(request))
        answer = await self._core.open_stream(request)
        return message_stream(Reader(self._core, answer, messages=path, options=options))

    @opening
    async def resume(
        self,
        session_id: str,
        message_id: str,
        *,
        last_event_id: str | None = None,
        **options: Unpack[Options],
    ) -> Either[MessageStream, AsyncMessageStream]:
        """The stream of a message again: behind `last_event_id`, or from its start, then live.

        Raises NotFoundError with the code `stream_expired` once it is no longer kept; `retrieve` has the message.
        """
        request = resume_call(_path(session_id, message_id, "stream"), last_event_id, options)
        answer = await self._core.open(request)
        reader = Reader(
            self._core,
            answer,
            messages=_path(session_id),
            message_id=message_id,
            last_event_id=last_event_id,
            options=options,
        )
        await reader.go_on(answer)
        return message_stream(reader)

    @opening
    async def active(
        self, session_id: str, **options: Unpack[Options]
    ) -> Either[MessageStream | None, AsyncMessageStream | None]:
        """The stream of the message that is being generated; None if there is none."""
        request = resume_call(("api", "chat", "sessions", session_id, "stream"), None, options)
        answer = await self._core.open(request)
        if answer.status == 204:
            await self._core.discard(answer)
            return cast("Either[None, None]", None)
        await self._core.checked_stream(answer)
        reader = Reader(self._core, answer, messages=_path(session_id), options=options)
        return message_stream(reader)

    @call
    async def retrieve(
        self, session_id: str, message_id: str, **options: Unpack[Options]
    ) -> Message:
        """A message in progress has what came so far."""
        path = _path(session_id, message_id)
        return Message.of(await self._core.read_json(Call("GET", path, options=options)))

    @call
    async def cancel(self, session_id: str, message_id: str, **options: Unpack[Options]) -> Message:
        """Stops the generation, wherever it runs, and returns the message as it ended. Can be called again."""
        path = _path(session_id, message_id, "cancel")
        return Message.of(await self._core.read_json(Call("POST", path, options=options)))

    @listing
    def list(
        self, session_id: str, **params: Unpack[ListParams]
    ) -> Either[Page[Message], AsyncList[Message]]:
        """Oldest first."""
        return listed(self._core, _path(session_id), params, Message.of)


def _path(session_id: str, *more: str) -> tuple[str, ...]:
    return ("api", "chat", "sessions", session_id, "messages", *more)


def _with_files(content: Any, files: Sequence[str]) -> Sequence[Any]:
    if content is None:
        raise TollgateError("files go with a content; in messages they are parts of type file.")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return [*parts, *({"type": "file", "file": {"file_id": each}} for each in files)]
