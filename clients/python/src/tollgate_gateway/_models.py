# The models that the key may use.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._modes import M, Resource, call, listing
from ._pages import listed
from ._record import Record, one_of
from ._request import Call

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, Page
    from ._request import Options

_PATH = ("v1", "models")


@dataclass(frozen=True)
class ModelPrice(Record):
    """Balance tokens for each model token; `request` for each request."""

    input: float = 0
    output: float = 0
    cached_input: float = 0
    request: float = 0


@dataclass(frozen=True)
class Model(Record):
    """`context_window` and `max_output_tokens` are model tokens; `endpoints` is what of `/v1` it serves."""

    id: str = ""
    created: int = 0
    owned_by: str = ""
    price: ModelPrice | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    accepts: Sequence[str] = ()
    endpoints: Sequence[str] = ()

    _nested = {"price": one_of(ModelPrice)}


class Models(Resource[M]):
    @listing
    def list(self, **options: Unpack[Options]) -> Either[Page[Model], AsyncList[Model]]:
        return listed(self._core, _PATH, options, Model.of)

    @call
    async def retrieve(self, model: str, **options: Unpack[Options]) -> Model:
        return Model.of(await self._core.read_json(Call("GET", (*_PATH, model), options=options)))
