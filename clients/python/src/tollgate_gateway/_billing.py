# What the account has, and what it was spent on. Amounts are balance tokens, exact integers.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ._chunk import TokenUsage
from ._modes import M, Resource, call, listing
from ._pages import listed
from ._record import Record, one_of
from ._request import Call, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, ListParams, Page


class UsageParams(Options, total=False):
    """`from_`, `to`: Unix seconds."""

    from_: int
    to: int
    bucket: Literal["hour", "day"]
    group_by: Literal["model", "key"]


_PATH = ("api", "billing")


@dataclass(frozen=True)
class Allowance(Record):
    """The part of a balance that the plan gives anew in each window (`every`: day, week, month), spent first."""

    tokens: int = 0
    every: str | None = None
    left: int = 0
    renews_at: int | None = None


@dataclass(frozen=True)
class Budget(Record):
    """A cap on what may be spent in each window. `used`: charges, and what running requests have reserved."""

    tokens: int = 0
    every: str = ""
    used: int = 0
    renews_at: int | None = None


@dataclass(frozen=True)
class Balance(Record):
    """`available` is `balance` less what running requests have reserved; `owed` is paid first from what comes in."""

    unit: str = "token"
    balance: int = 0
    reserved: int = 0
    available: int = 0
    granted: int = 0
    spent: int = 0
    owed: int = 0
    allowance: Allowance | None = None
    budget: Budget | None = None
    updated_at: int = 0

    _nested = {"allowance": one_of(Allowance), "budget": one_of(Budget)}


@dataclass(frozen=True)
class Transaction(Record):
    """`type`: topup, charge, adjustment, repayment (of what charges had left `owed`) or allowance.

    `amount` is negative for what was taken. What was `implausible` is not charged, what is `waived` is never to be
    paid, `allowance` is the part that the allowance paid. `cut`: the money ran out in the middle of the answer.
    """

    id: str = ""
    type: str = ""
    amount: int = 0
    balance_after: int = 0
    model: str | None = None
    usage: TokenUsage | None = None
    estimated: bool = False
    owed: int = 0
    allowance: int = 0
    implausible: int = 0
    waived: int = 0
    cut: bool = False
    request_id: str | None = None
    session_id: str | None = None
    message_id: str | None = None
    note: str | None = None
    created_at: int = 0

    _nested = {"usage": one_of(TokenUsage)}


@dataclass(frozen=True)
class UsageBucket(Record):
    """Sums from `start` to `end` (Unix seconds), of one model or key if they are grouped. `waived` is the part of `cost`
    that the gateway counted without charging."""

    start: int = 0
    end: int = 0
    model: str | None = None
    key_id: str | None = None
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: int = 0
    waived: int = 0


class Billing(Resource[M]):
    @call
    async def balance(self, **options: Unpack[Options]) -> Balance:
        request = Call("GET", (*_PATH, "balance"), options=options)
        return Balance.of(await self._core.read_json(request))

    @listing
    def transactions(
        self, **params: Unpack[ListParams]
    ) -> Either[Page[Transaction], AsyncList[Transaction]]:
        """Newest first."""
        return listed(self._core, (*_PATH, "transactions"), params, Transaction.of)

    @listing
    def usage(
        self, **params: Unpack[UsageParams]
    ) -> Either[Page[UsageBucket], AsyncList[UsageBucket]]:
        """Sums by hour or day."""
        query = {name.rstrip("_"): value for name, value in params.items()}
        return listed(self._core, (*_PATH, "usage"), query, UsageBucket.of)
