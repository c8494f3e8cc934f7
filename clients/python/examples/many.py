"""Many conversations at once, in one event loop, and what they cost."""

from __future__ import annotations

import asyncio

from tollgate_gateway import AsyncTollgate


async def converse(gate: AsyncTollgate, name: str) -> str:
    session = await gate.sessions.create(title=name)
    stream = await gate.messages.create(session.id, content=f"Greet {name}.")
    message = await stream.final_message()
    return f"{name}: {message.text[:40]}… ({message.cost} tokens)"


async def main() -> None:
    async with AsyncTollgate() as gate:
        names = [f"guest {number}" for number in range(10)]
        for line in await asyncio.gather(*(converse(gate, name) for name in names)):
            print(line)
        print((await gate.billing.balance()).available, "tokens are left")


if __name__ == "__main__":
    asyncio.run(main())
