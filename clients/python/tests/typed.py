# What type checkers say of the two clients. Never run.

from __future__ import annotations

from typing_extensions import assert_type

import tollgate_gateway
from tollgate_gateway import AsyncTollgate, Tollgate


def blocking(gate: Tollgate) -> None:
    assert_type(gate.sessions.create(title="T"), tollgate_gateway.Session)
    assert_type(gate.messages.create("s", "Hi"), tollgate_gateway.MessageStream)
    assert_type(gate.messages.create("s", "Hi", stream=False), tollgate_gateway.Message)
    assert_type(gate.messages.active("s"), "tollgate_gateway.MessageStream | None")
    assert_type(
        gate.sessions.list(limit=3), "tollgate_gateway.Page[tollgate_gateway.ListedSession]"
    )
    assert_type(gate.files.content("f"), tollgate_gateway.Download)
    stream = gate.chat.completions.create(model="m", messages=[], stream=True, temperature=0)
    assert_type(stream, tollgate_gateway.ChatStream)
    for chunk in stream:
        assert_type(chunk.text, str)
    assert_type(gate.messages.create("s", "Hi").final_message(), tollgate_gateway.Message)
    gate.sessions.create(titel="T")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def awaiting(gate: AsyncTollgate) -> None:
    assert_type(await gate.sessions.create(title="T"), tollgate_gateway.Session)
    assert_type(await gate.messages.create("s", "Hi"), tollgate_gateway.AsyncMessageStream)
    assert_type(await gate.messages.create("s", "Hi", stream=False), tollgate_gateway.Message)
    assert_type(await gate.messages.active("s"), "tollgate_gateway.AsyncMessageStream | None")
    assert_type(
        await gate.sessions.list(limit=3),
        "tollgate_gateway.AsyncPage[tollgate_gateway.ListedSession]",
    )
    async for session in gate.sessions.list():
        assert_type(session, tollgate_gateway.ListedSession)
    assert_type(await gate.files.content("f"), tollgate_gateway.AsyncDownload)
    answer = await gate.chat.completions.create(model="m", messages=[])
    assert_type(answer, tollgate_gateway.ChatCompletion)
    stream = await gate.messages.create("s", "Hi")
    assert_type(await stream.final_message(), tollgate_gateway.Message)
