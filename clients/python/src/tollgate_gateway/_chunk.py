# A chunk of a streamed answer. Its fields are parsed only when they are read: at full speed most never are.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._record import Record, each_of, one_of


@dataclass(frozen=True)
class TokenUsage(Record):
    """Tokens. `estimated`: the gateway counted them, because the model reported none. `cached_tokens`: of the prompt,
    in transactions."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    estimated: bool = False
    cached_tokens: int = 0


@dataclass(frozen=True)
class Delta(Record):
    """What a chunk adds to a choice."""

    role: str | None = None
    content: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class ChunkChoice(Record):
    index: int = 0
    delta: Delta = field(default_factory=Delta)
    finish_reason: str | None = None

    _nested = {"delta": lambda value: one_of(Delta)(value) or Delta()}


@dataclass(frozen=True)
class Chunk:
    """One event of a stream, as the model's server sent it. Everything in it is in `raw`."""

    raw: Mapping[str, Any] = field(repr=False)
    text: str
    """The text that it adds to the first choice; often empty."""
    event_id: str | None = None
    """Its place in a session's stream."""

    @property
    def id(self) -> str | None:
        return self.raw.get("id")

    @property
    def model(self) -> str | None:
        return self.raw.get("model")

    @property
    def choices(self) -> Sequence[ChunkChoice]:
        return each_of(ChunkChoice)(self.raw.get("choices"))

    @property
    def usage(self) -> TokenUsage | None:
        """In one of the last chunks, if the request asked for it."""
        return one_of(TokenUsage)(self.raw.get("usage"))


def text_of(raw: Mapping[str, Any]) -> str:
    choices = raw.get("choices")
    if not isinstance(choices, list):
        return ""
    for choice in choices:
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            continue
        delta = choice.get("delta")
        text = delta.get("content") if isinstance(delta, dict) else None
        return text if isinstance(text, str) else ""
    return ""
