# Stateless chat: Chat Completions, as OpenAI's clients have them.

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from ._chunk import TokenUsage
from ._core import Core
from ._modes import Awaiting, Blocking, M, Resource, delivered
from ._reader import Reader
from ._record import Record, each_of, one_of
from ._request import Call, Options, divided
from ._stream import AsyncChatStream, ChatStream, chat_stream

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ChatParams(Options, total=False):
    """Parameters of Chat Completions, passed on to the model. Any other goes into `extra_body`."""

    frequency_penalty: float | None
    logit_bias: Mapping[str, int] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    n: int | None
    parallel_tool_calls: bool | None
    presence_penalty: float | None
    reasoning_effort: str | None
    response_format: Mapping[str, Any] | None
    seed: int | None
    stop: str | Sequence[str] | None
    stream_options: Mapping[str, Any] | None
    temperature: float | None
    tool_choice: str | Mapping[str, Any] | None
    tools: Sequence[Mapping[str, Any]] | None
    top_logprobs: int | None
    top_p: float | None
    user: str | None
    extra_body: Mapping[str, Any]


@dataclass(frozen=True)
class ChatMessage(Record):
    role: str = ""
    content: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Choice(Record):
    index: int = 0
    message: ChatMessage = field(default_factory=ChatMessage)
    finish_reason: str | None = None

    _nested = {"message": lambda value: one_of(ChatMessage)(value) or ChatMessage()}


@dataclass(frozen=True)
class ChatCompletion(Record):
    """A whole answer. `created` is in Unix seconds."""

    id: str = ""
    created: int = 0
    model: str = ""
    choices: Sequence[Choice] = ()
    usage: TokenUsage | None = None

    _nested = {"choices": each_of(Choice), "usage": one_of(TokenUsage)}

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return next((one.message.content or "" for one in self.choices if one.index == 0), "")


class Completions(Resource[M]):
    @overload
    def create(
        self: Completions[Blocking],
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: Literal[False] | None = ...,
        **params: Unpack[ChatParams],
    ) -> ChatCompletion: ...
    @overload
    def create(
        self: Completions[Blocking],
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: Literal[True],
        **params: Unpack[ChatParams],
    ) -> ChatStream: ...
    @overload
    def create(
        self: Completions[Awaiting],
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: Literal[False] | None = ...,
        **params: Unpack[ChatParams],
    ) -> Coroutine[Any, Any, ChatCompletion]: ...
    @overload
    def create(
        self: Completions[Awaiting],
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: Literal[True],
        **params: Unpack[ChatParams],
    ) -> Coroutine[Any, Any, AsyncChatStream]: ...
    def create(
        self,
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: bool | None = None,
        **params: Any,
    ) -> Any:
        """An answer, or with `stream=True` a stream of chunks. Nothing is stored, and nothing can be resumed.

        Raises InsufficientBalanceError, RateLimitError, and the others. Not sent again once it may have arrived,
        nor after a 504, for it would be paid for twice.
        """
        body = {"model": model, "messages": messages, **({"stream": True} if stream else {})}
        return delivered(self._core, self._create({**body, **params}))

    async def _create(self, params: Mapping[str, Any]) -> Any:
        body, options = divided(params)
        streams = bool(body.get("stream"))
        request = Call(
            "POST",
            ("v1", "chat", "completions"),
            body=body,
            options=options,
            streams=streams,
            is_creating=True,
            is_generating=True,
            is_paid_each_time=True,
        )
        if not streams:
            return ChatCompletion.of(await self._core.read_json(request))
        return chat_stream(Reader(self._core, await self._core.open_stream(request)))


class Chat(Resource[M]):
    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.completions: Completions[M] = Completions(core)
