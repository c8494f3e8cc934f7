"""Client of the Tollgate chat gateway: chat, sessions, messages, files, billing, models.

`Tollgate` blocks, `AsyncTollgate` is awaited; all else is the same. The calls of `Sessions`, `Messages`, `Files`,
`Billing`, `Models` and `Completions` are shown here as `AsyncTollgate` has them; with `Tollgate` there is no `await`.
"""

from ._billing import (
    Allowance,
    AppliedPrice,
    Balance,
    Billing,
    Budget,
    Transaction,
    TransactionParams,
    UsageBucket,
    UsageParams,
)
from ._chat import Chat, ChatCompletion, ChatMessage, ChatParams, Choice, Completions
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
from ._files import File, FileListParams, Files
from ._message import Message
from ._messages import MessageParams, Messages
from ._models import Model, ModelPrice, Models
from ._pages import AsyncList, AsyncPage, ListParams, Page
from ._request import Options
from ._sessions import ListedSession, Session, SessionParams, Sessions
from ._stream import AsyncChatStream, AsyncMessageStream, ChatStream, MessageStream
from ._version import __version__

__all__ = [
    "APIError",
    "Allowance",
    "AppliedPrice",
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
    "Budget",
    "Chat",
    "ChatCompletion",
    "ChatMessage",
    "ChatParams",
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
    "FileListParams",
    "Files",
    "IncompleteStreamError",
    "InsufficientBalanceError",
    "ListParams",
    "ListedSession",
    "Message",
    "MessageParams",
    "MessageStream",
    "Messages",
    "Model",
    "ModelPrice",
    "Models",
    "NotFoundError",
    "Options",
    "Page",
    "PermissionDeniedError",
    "RateLimitError",
    "ServerError",
    "Session",
    "SessionParams",
    "Sessions",
    "TimeoutError",
    "TokenUsage",
    "Tollgate",
    "TollgateError",
    "Transaction",
    "TransactionParams",
    "UsageBucket",
    "UsageParams",
    "__version__",
]
