# What type checkers make of the two clients. Never run.

from __future__ import annotations

from typing_extensions import assert_type

import tollgate
from tollgate import AsyncTollgate, Tollgate


def blocking(gate: Tollgate) -> None:
    assert_type(gate.sessions.create(title="T"), tollgate.Session)
    assert_type(gate.messages.create("s", "Hi"), tollgate.MessageStream)
    assert_type(gate.messages.create("s", "Hi", stream=False), tollgate.Message)
    assert_type(gate.messages.active("s"), "tollgate.MessageStream | None")
    assert_type(gate.sessions.list(limit=3), "tollgate.Page[tollgate.Session]")
    assert_type(gate.files.content("f"), tollgate.Download)
    stream = gate.chat.completions.create(model="m", messages=[], stream=True, temperature=0)
    assert_type(stream, tollgate.ChatStream)
    for chunk in stream:
        assert_type(chunk.text, str)
    assert_type(gate.messages.create("s", "Hi").final_message(), tollgate.Message)
    gate.sessions.create(titel="T")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def awaiting(gate: AsyncTollgate) -> None:
    assert_type(await gate.sessions.create(title="T"), tollgate.Session)
    assert_type(await gate.messages.create("s", "Hi"), tollgate.AsyncMessageStream)
    assert_type(await gate.messages.create("s", "Hi", stream=False), tollgate.Message)
    assert_type(await gate.messages.active("s"), "tollgate.AsyncMessageStream | None")
    assert_type(await gate.sessions.list(limit=3), "tollgate.AsyncPage[tollgate.Session]")
    async for session in gate.sessions.list():
        assert_type(session, tollgate.Session)
    assert_type(await gate.files.content("f"), tollgate.AsyncDownload)
    answer = await gate.chat.completions.create(model="m", messages=[])
    assert_type(answer, tollgate.ChatCompletion)
    stream = await gate.messages.create("s", "Hi")
    assert_type(await stream.final_message(), tollgate.Message)
