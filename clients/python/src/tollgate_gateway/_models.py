# The models that the key may use.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._modes import M, Resource, call, listing
from ._pages import listed
from ._record import Record
from ._request import Call

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, Page
    from ._request import Options

_PATH = ("v1", "models")


@dataclass(frozen=True)
class Model(Record):
    id: str = ""
    created: int = 0
    owned_by: str = ""


class Models(Resource[M]):
    @listing
    def list(self, **options: Unpack[Options]) -> Either[Page[Model], AsyncList[Model]]:
        return listed(self._core, _PATH, options, Model.of)

    @call
    async def retrieve(self, model: str, **options: Unpack[Options]) -> Model:
        return Model.of(await self._core.read_json(Call("GET", (*_PATH, model), options=options)))
