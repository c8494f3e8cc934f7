# What only real sockets show: a refusal is seen although the upload is not complete, a stream that nobody holds any
# more hangs up, and a connection can be used again after a stream.

from __future__ import annotations

import asyncio
import gc
import json
import unittest
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

from tollgate_gateway import AsyncTollgate, BadRequestError, InsufficientBalanceError, Tollgate

ERROR = {"error": {"message": "too large", "code": "file_too_large"}}
BODY = json.dumps(ERROR).encode()
HEAD = f"HTTP/1.1 413 No\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
FILE = bytes(50_000_000)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def refuse(
    is_told: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    asked = await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD.encode() + BODY)
    await writer.drain()
    try:
        # As the gateway does, so that most clients can read their answer.
        with suppress(asyncio.IncompleteReadError):
            if b"x-stay" in asked:
                await is_told.wait()
            await reader.readexactly(1_000_000)
    finally:
        writer.transport.abort()


class EarlyRefusals(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.is_told = asyncio.Event()
        server = await asyncio.start_server(partial(refuse, self.is_told), "127.0.0.1", 0)
        self.addAsyncCleanup(server.wait_closed)
        self.addCleanup(server.close)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def test_the_asynchronous_client_tells_why(self) -> None:
        async with AsyncTollgate("tg_live_secret", self.url) as gate:
            with self.assertRaisesRegex(BadRequestError, "too large"):
                await gate.files.upload(FILE, session_id="sess_1")

    async def test_the_blocking_client_tells_why(self) -> None:
        def upload(headers: dict[str, str]) -> None:
            with Tollgate("tg_live_secret", self.url, headers=headers, idle_timeout=10) as gate:
                gate.files.upload(FILE, session_id="sess_1")

        # A server that reads no more, but does not hang up.
        for headers in ({}, {"x-stay": "1"}):
            with self.assertRaisesRegex(BadRequestError, "too large"):
                await asyncio.to_thread(upload, headers)
        self.is_told.set()


REFUSAL = b"HTTP/1.1 402 No\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"


class SilentRefusals(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        self.addAsyncCleanup(server.wait_closed)
        self.addCleanup(server.close)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        seconds = mock.patch("tollgate_gateway._core._REFUSAL_SECONDS", 0.2)
        seconds.start()
        self.addCleanup(seconds.stop)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(REFUSAL)
        await reader.read()
        writer.close()

    async def test_one_that_never_ends_is_told_before_the_idle_timeout(self) -> None:
        with Tollgate("tg_live_secret", self.url, idle_timeout=20) as gate:
            reading = asyncio.to_thread(gate.billing.balance)
            with self.assertRaises(InsufficientBalanceError):
                await asyncio.wait_for(reading, 10)
        async with AsyncTollgate("tg_live_secret", self.url, idle_timeout=20) as other:
            with self.assertRaises(InsufficientBalanceError):
                await asyncio.wait_for(other.billing.balance(), 10)


class Streams(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.connections = 0
        self.end = b""
        self.has_hung_up = asyncio.Event()
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        self.addAsyncCleanup(server.wait_closed)
        self.addCleanup(server.close)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n{")
                writer.write(STREAM + self.end)
        self.has_hung_up.set()
        writer.close()

    async def test_one_that_is_forgotten_hangs_up_before_any_other_call(self) -> None:
        gate = Tollgate("tg_live_secret", self.url)
        await asyncio.to_thread(lambda: self.ask(gate) and None)
        gc.collect()
        await asyncio.wait_for(self.has_hung_up.wait(), 10)
        gate.close()

    async def test_a_connection_serves_again(self) -> None:
        self.end = DONE
        with Tollgate("tg_live_secret", self.url) as gate:
            for _ in range(3):
                await asyncio.to_thread(lambda: list(self.ask(gate)))
        async with AsyncTollgate("tg_live_secret", self.url) as other:
            for _ in range(3):
                self.assertEqual([chunk async for chunk in await self.ask(other)], [])
        self.assertEqual(self.connections, 2)

    def ask(self, gate: Any) -> Any:
        return gate.chat.completions.create(model="demo", messages=[], stream=True)
