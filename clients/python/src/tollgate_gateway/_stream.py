# A stream for its reader: of a session's message, or of a stateless chat. The Reader does the work.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ._chunk import Chunk
from ._loop import AsyncLoop, BlockingLoop
from ._message import Message
from ._modes import Awaiting, Blocking, M, Resource, call
from ._reader import Reader

if TYPE_CHECKING:
    from ._modes import Either


class _Stream(Resource[M]):
    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.core)
        self._reader = reader

    @property
    def _source(self) -> Reader:
        return self._reader

    @property
    def request_id(self) -> str | None:
        """The request id of the first answer: it finds the request in the gateway's log."""
        return self._source.request_id

    @property
    def partial_text(self) -> str:
        """The text of the first choice so far, at most 8 MiB of it."""
        return self._source.partial_text


class _MessageStream(_Stream[M]):
    @property
    def message_id(self) -> str:
        """The id of the answer. Empty while the gateway has not named it."""
        return self._source.message_id or ""

    @property
    def user_message_id(self) -> str | None:
        return self._source.user_message_id

    @property
    def last_event_id(self) -> str | None:
        """The id of the last chunk that was given: `messages.resume` continues after it."""
        return self._source.last_event_id

    @call
    async def cancel(self) -> Message:
        """Stops the generation on the server, and returns the message. The loop goes on to the stream's end."""
        return Message.of(await self._source.cancel())

    @call
    async def final_message(self) -> Message:
        """Reads the rest of the stream, then the message: status, usage, cost. Raises what the stream ends with.

        Of a stream that was left, it is the message as it is by then.
        """
        await self._source.drain()
        return Message.of(await self._source.read_message())


class ChatStream(_Stream[Blocking], BlockingLoop[Chunk]):
    """A stateless answer, chunk by chunk. It can't be resumed: one that breaks ends with IncompleteStreamError."""


class AsyncChatStream(_Stream[Awaiting], AsyncLoop[Chunk]):
    """A stateless answer, chunk by chunk. It can't be resumed: one that breaks ends with IncompleteStreamError."""


class MessageStream(_MessageStream[Blocking], BlockingLoop[Chunk]):
    """A session's answer, chunk by chunk. A connection that breaks is resumed; no chunk comes twice or is lost."""


class AsyncMessageStream(_MessageStream[Awaiting], AsyncLoop[Chunk]):
    """A session's answer, chunk by chunk. A connection that breaks is resumed; no chunk comes twice or is lost."""


def chat_stream(reader: Reader) -> Either[ChatStream, AsyncChatStream]:
    made = ChatStream(reader) if reader.core.is_blocking else AsyncChatStream(reader)
    return cast("Either[ChatStream, AsyncChatStream]", made)


def message_stream(reader: Reader) -> Either[MessageStream, AsyncMessageStream]:
    made = MessageStream(reader) if reader.core.is_blocking else AsyncMessageStream(reader)
    return cast("Either[MessageStream, AsyncMessageStream]", made)
