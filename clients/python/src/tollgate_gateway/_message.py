# A message of a session: a question or an answer.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._chunk import TokenUsage
from ._record import Record, one_of


@dataclass(frozen=True)
class Message(Record):
    """`status`: in_progress, completed, cancelled, failed or incomplete. `cost` is in balance tokens, times are Unix
    seconds. The text of an answer that did not end well is kept as far as it came."""

    id: str = ""
    session_id: str = ""
    role: str = ""
    content: str | Sequence[Mapping[str, Any]] | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    status: str = ""
    finish_reason: str | None = None
    model: str | None = None
    usage: TokenUsage | None = None
    cost: int | None = None
    error: Mapping[str, Any] | None = None
    created_at: int = 0
    completed_at: int | None = None

    _nested = {"usage": one_of(TokenUsage)}

    @property
    def text(self) -> str:
        """The content, if it is text or has parts of text."""
        if not isinstance(self.content, list):
            return self.content if isinstance(self.content, str) else ""
        texts = (part.get("text") for part in self.content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
