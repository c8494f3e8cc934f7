# The life of a stream: bytes to chunks, a broken connection to a resumed one, the terminal to the end or an error.
# Never gives a chunk twice, never takes an end without a terminal for success, never reads before it is asked.
#
#   reading --[DONE]--> ended        reading --cut, idle--> waiting --200--> reading
#      |  \--error frame--> failed                             |  \--204--> ended, if the message is complete
#      '--close--> closed                                      '--4xx, five attempts without a chunk--> failed

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._chunk import Chunk, text_of
from ._core import Core, parse_object
from ._errors import (
    APIError,
    ConnectionError,
    IncompleteStreamError,
    TollgateError,
    error_of_event,
)
from ._http import Answer
from ._request import Call
from ._source import Source
from ._sse import Event, Parser

_MOST_PARTIAL_TEXT = 8 * 1024 * 1024


class Reader(Source[Chunk]):
    """`pop` gives what has come, without waiting; `more` waits for more of it. One of the two faces calls them in turn.

    `messages`: the path of the session's messages; None for a stream that can't be resumed.
    """

    def __init__(
        self,
        core: Core,
        answer: Answer,
        *,
        messages: tuple[str, ...] | None = None,
        message_id: str | None = None,
        last_event_id: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(core, answer)
        headers = answer.headers
        self.request_id: str | None = headers.get("x-request-id")
        self.message_id: str | None = headers.get("x-message-id") or message_id
        self.user_message_id: str | None = headers.get("x-user-message-id")
        self.last_event_id = last_event_id
        self._messages = messages
        self._options = options or {}
        self._number = _number_of(last_event_id)
        self._text = bytearray()
        self._parser = Parser()
        self._failure: TollgateError | None = None
        # Cancels by this reader that may have stopped the message.
        self._cancels = 0
        self._is_reading = False
        # True when a resume could not tell what was given already.
        self._has_unnumbered = False

    @property
    def partial_text(self) -> str:
        text = self._text.decode("utf-8", "surrogatepass")
        # A character that the model's server has cut into two chunks.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def pop(self) -> Chunk | None:
        """None when nothing is here: use `more`."""
        events = self._parser.events
        while events:
            event = events.popleft()
            if not self._moves_on(event.id):
                continue
            chunk = self._chunk_of(event)
            if chunk is None:
                events.clear()
            return chunk
        return None

    def _chunk_of(self, event: Event) -> Chunk | None:
        """None for a terminal, and for an event that can't be a chunk."""
        if event.data == "[DONE]":
            self.is_over = True
            return None
        try:
            raw = parse_object(event.data, "An event of the stream")
        except TollgateError as error:
            self._fail(error)
            return None
        if raw.get("error") is not None:
            self._take_error(event.data)
            return None
        text = text_of(raw)
        if text:
            self._keep(text)
        self._tries = 0
        return Chunk(raw, text, event.id)

    async def more(self) -> bool:
        """False at the end; raises the stream's failure. No chunk is left to pop then."""
        if self.is_over or self.is_closed:
            await self._end()
            return False
        if self._is_reading:
            # Two readers at once: one would get the error, and the other take its stream for complete.
            self._fail(TollgateError("Two loops read this stream at once."))
            return True
        self._is_reading = True
        try:
            return await self._read()
        finally:
            self._is_reading = False

    async def _read(self) -> bool:
        cause: TollgateError | None = None
        try:
            piece = await self._next_piece()
            if piece:
                self._parser.feed(piece)
                return True
        except ConnectionError as error:
            cause = error
        except TollgateError as error:
            self._fail(error)
            return True
        if not self.is_closed:
            await self._resume(cause)
        return True

    async def _end(self) -> None:
        self.is_closed = True
        if self.is_over and not self._failure:
            answer = self._taken()
            if answer is not None:
                await self.core.io.finish(answer)
        await self._drop()
        if self._failure:
            self._failure.partial_text = self.partial_text
            raise self._failure

    async def close(self) -> None:
        """Leaves: the connection is closed, the generation goes on."""
        self._parser.events.clear()
        await super().close()

    async def drain(self) -> None:
        while True:
            if self.pop() is None and not await self.more():
                return

    async def read_message(self, method: str = "GET", *more: str) -> dict[str, Any]:
        """The message behind the stream."""
        path = self._known_path(*more)
        return await self.core.read_json(Call(method, path, options=self._options))

    async def cancel(self) -> dict[str, Any]:
        self._known_path()
        self._cancels += 1
        try:
            return await self.read_message("POST", "cancel")
        except APIError as error:
            # A refused cancel stopped nothing. One that failed, or whose answer was lost, may have.
            if error.status is not None and error.status < 500:
                self._cancels -= 1
            raise

    def _known_path(self, *more: str) -> tuple[str, ...]:
        path = self._path(*more)
        if path is None:
            raise TollgateError("This stream has no message: its answer named none.")
        return path

    def _path(self, *more: str) -> tuple[str, ...] | None:
        if self._messages is None or not self.message_id:
            return None
        return (*self._messages, self.message_id, *more)

    def _moves_on(self, event_id: str | None) -> bool:
        """False for an event that was given already, before the connection broke."""
        if not event_id or self._messages is None:
            self._has_unnumbered = True
            return True
        number = _number_of(event_id)
        if number is not None:
            if self._number is not None and number <= self._number:
                return False
            self._number = number
            self.message_id = self.message_id or event_id.rpartition(":")[0]
        self.last_event_id = event_id
        return True

    def _keep(self, text: str) -> None:
        room = _MOST_PARTIAL_TEXT - len(self._text)
        if room <= 0:
            return
        encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) > room:
            encoded = encoded[:room].decode("utf-8", "ignore").encode()
        self._text += encoded

    def _take_error(self, data: str) -> None:
        error = error_of_event(self.core.parse_error(data, "An event of the stream"))
        if error.code == "message_cancelled" and self._cancels > 0:
            self.is_over = True
        else:
            self._fail(error)

    def _fail(self, error: TollgateError) -> None:
        error.request_id = error.request_id or self.request_id
        self._failure = error
        self.is_over = True

    async def _resume(self, cause: TollgateError | None) -> None:
        self._parser = Parser()
        await self._drop()
        path = self._path("stream")
        try:
            if path is None or self._has_unnumbered:
                raise IncompleteStreamError(self._why_not()) from cause
            call = resume_call(path, self.last_event_id, self._options)
            answer = await self._ask_again(call, cause)
            if answer is not None:
                await self.go_on(answer)
        except TollgateError as error:
            if not self.is_closed:
                self._fail(error)

    async def go_on(self, answer: Answer) -> None:
        """Resumes with a stream; or the server has no more (204): then the message says whether it is a success."""
        if answer.status != 204:
            self._answer = await self.core.checked_stream(answer)
            return
        self._answer = None
        await self.core.discard(answer)
        if self.is_closed:
            return
        try:
            status = (await self.read_message()).get("status")
        except ConnectionError as error:
            raise IncompleteStreamError("How the message ended could not be read.") from error
        if status == "completed" or (status == "cancelled" and self._cancels > 0):
            self.is_over = True
        else:
            words = f"The stream ended early: the message is {status}."
            self._fail(IncompleteStreamError(words))

    def _why_not(self) -> str:
        if self._messages is None:
            return "The stream ended early, and a stateless chat can't be resumed."
        return "The stream ended early, and can't be resumed: it named no message, or no events."


def resume_call(
    path: tuple[str, ...], last_event_id: str | None, options: Mapping[str, Any]
) -> Call:
    headers = {"last-event-id": last_event_id} if last_event_id else {}
    return Call("GET", path, headers=headers, options=options, streams=True)


def _number_of(event_id: str | None) -> int | None:
    number = (event_id or "").rpartition(":")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 20 else None
