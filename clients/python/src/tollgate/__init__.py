"""Client of the Tollgate chat gateway: chat, sessions, messages, files, billing, models.

`Tollgate` blocks, `AsyncTollgate` is awaited; all else is the same.
"""

from ._billing import Balance, Billing, Transaction, UsageBucket
from ._chat import Chat, ChatCompletion, ChatMessage, Choice, Completions
from ._chunk import Chunk, ChunkChoice, Delta, TokenUsage
from ._client import AsyncTollgate, Tollgate
from ._download import AsyncDownload, Download
from ._errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    ConnectionError,
    IncompleteStreamError,
    InsufficientBalanceError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    TimeoutError,
    TollgateError,
)
from ._files import File, Files
from ._message import Message
from ._messages import Messages
from ._models import Model, Models
from ._pages import AsyncList, AsyncPage, Page
from ._sessions import Session, Sessions
from ._stream import AsyncChatStream, AsyncMessageStream, ChatStream, MessageStream
from ._version import __version__

__all__ = [
    "APIError",
    "AsyncChatStream",
    "AsyncDownload",
    "AsyncList",
    "AsyncMessageStream",
    "AsyncPage",
    "AsyncTollgate",
    "AuthenticationError",
    "BadRequestError",
    "Balance",
    "Billing",
    "Chat",
    "ChatCompletion",
    "ChatMessage",
    "ChatStream",
    "Choice",
    "Chunk",
    "ChunkChoice",
    "Completions",
    "ConflictError",
    "ConnectionError",
    "Delta",
    "Download",
    "File",
    "Files",
    "IncompleteStreamError",
    "InsufficientBalanceError",
    "Message",
    "MessageStream",
    "Messages",
    "Model",
    "Models",
    "NotFoundError",
    "Page",
    "PermissionDeniedError",
    "RateLimitError",
    "ServerError",
    "Session",
    "Sessions",
    "TimeoutError",
    "TokenUsage",
    "Tollgate",
    "TollgateError",
    "Transaction",
    "UsageBucket",
    "__version__",
]
