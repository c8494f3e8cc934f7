# What the account has, and what it was spent on. Amounts are balance tokens, exact integers.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ._chunk import TokenUsage
from ._modes import M, Resource, call, listing
from ._pages import ListParams, listed
from ._record import Record, one_of
from ._request import Call, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._modes import Either
    from ._pages import AsyncList, Page


class UsageParams(Options, total=False):
    """`from_`, `to`: Unix seconds."""

    from_: int
    to: int
    bucket: Literal["hour", "day"]
    group_by: Literal["model", "key"]
    model: str
    key: str


class TransactionParams(ListParams, total=False):
    """`from_`, `to`: Unix seconds. `key`: the id of a key. `reference`: the id of a payment."""

    from_: int
    to: int
    type: str
    model: str
    key: str
    reference: str


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
    key_budget: Budget | None = None
    updated_at: int = 0

    _nested = {
        "allowance": one_of(Allowance),
        "budget": one_of(Budget),
        "key_budget": one_of(Budget),
    }


@dataclass(frozen=True)
class AppliedPrice(Record):
    """Balance tokens for one token of the model, and for a request."""

    input: float = 0
    output: float = 0
    cached_input: float = 0
    request: float = 0


@dataclass(frozen=True)
class Transaction(Record):
    """`type`: topup, charge, correction, adjustment, refund, repayment (of what charges had left `owed`) or allowance.

    `amount` is negative for what was taken. What was `implausible` is not charged, what is `waived` is never to be
    paid, `allowance` is the part that the allowance paid. `cut`: the money ran out in the middle of the answer. `price`
    is the one that was applied, `charged_before` what the request of a correction had been charged, `reference` the
    payment of a topup.
    """

    id: str = ""
    type: str = ""
    amount: int = 0
    balance_after: int = 0
    model: str | None = None
    key_id: str | None = None
    price: AppliedPrice | None = None
    usage: TokenUsage | None = None
    charged_before: int = 0
    estimated: bool = False
    owed: int = 0
    allowance: int = 0
    implausible: int = 0
    waived: int = 0
    cut: bool = False
    request_id: str | None = None
    session_id: str | None = None
    message_id: str | None = None
    reference: str | None = None
    note: str | None = None
    created_at: int = 0

    _nested = {"usage": one_of(TokenUsage), "price": one_of(AppliedPrice)}


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
    cached_tokens: int = 0
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
        self, **params: Unpack[TransactionParams]
    ) -> Either[Page[Transaction], AsyncList[Transaction]]:
        """Newest first."""
        query = {name.rstrip("_"): value for name, value in params.items()}
        return listed(self._core, (*_PATH, "transactions"), query, Transaction.of)

    @listing
    def usage(
        self, **params: Unpack[UsageParams]
    ) -> Either[Page[UsageBucket], AsyncList[UsageBucket]]:
        """Sums by hour or day."""
        query = {name.rstrip("_"): value for name, value in params.items()}
        return listed(self._core, (*_PATH, "usage"), query, UsageBucket.of)
