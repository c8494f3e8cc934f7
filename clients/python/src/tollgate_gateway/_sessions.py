# Sessions: conversations that the gateway keeps.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._modes import M, Resource, call, listing
from ._pages import listed
from ._record import Record
from ._request import Call, Options, divided

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, ListParams, Page


class SessionParams(Options, total=False):
    """None clears a field; `metadata` (at most 16 pairs) is replaced whole."""

    title: str | None
    model: str | None
    instructions: str | None
    metadata: Mapping[str, str]
    extra_body: Mapping[str, Any]


_PATH = ("api", "chat", "sessions")


@dataclass(frozen=True)
class ListedSession(Record):
    """A session as lists have it, without its instructions: `retrieve` reads them.

    Times are Unix seconds. `active_message_id`: the message that is generated now.
    """

    id: str = ""
    created_at: int = 0
    updated_at: int = 0
    title: str | None = None
    model: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    message_count: int = 0
    active_message_id: str | None = None


@dataclass(frozen=True)
class Session(ListedSession):
    """A conversation."""

    instructions: str | None = None


class Sessions(Resource[M]):
    @call
    async def create(self, **params: Unpack[SessionParams]) -> Session:
        """A new conversation. `instructions` go before every prompt; without a `model` the gateway's first answers."""
        body, options = divided(params)
        request = Call("POST", _PATH, body=body, options=options, is_creating=True)
        return Session.of(await self._core.read_json(request))

    @call
    async def retrieve(self, session_id: str, **options: Unpack[Options]) -> Session:
        request = Call("GET", (*_PATH, session_id), options=options)
        return Session.of(await self._core.read_json(request))

    @call
    async def update(self, session_id: str, **params: Unpack[SessionParams]) -> Session:
        """Changes the given fields only."""
        body, options = divided(params)
        request = Call("PATCH", (*_PATH, session_id), body=body, options=options)
        return Session.of(await self._core.read_json(request))

    @call
    async def delete(self, session_id: str, **options: Unpack[Options]) -> None:
        """Also deletes its messages and files; an answer that is being generated is cancelled."""
        await self._core.finish(Call("DELETE", (*_PATH, session_id), options=options))

    @listing
    def list(
        self, **params: Unpack[ListParams]
    ) -> Either[Page[ListedSession], AsyncList[ListedSession]]:
        """Newest first."""
        return listed(self._core, _PATH, params, ListedSession.of)
