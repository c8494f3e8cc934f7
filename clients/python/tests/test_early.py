# A server that refuses an upload before it is whole, and closes: its answer is the call's, blocking and asynchronous. Over
# real sockets, for it is the kernel that throws away what nobody has read.

from __future__ import annotations

import asyncio
import json
import unittest
from contextlib import suppress

from tollgate import AsyncTollgate, BadRequestError, Tollgate

ERROR = {"error": {"message": "too large", "code": "file_too_large"}}
BODY = json.dumps(ERROR).encode()
HEAD = f"HTTP/1.1 413 No\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
FILE = bytes(50_000_000)


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD.encode() + BODY)
    await writer.drain()
    # As the gateway does, so that most clients get to their answer.
    with suppress(asyncio.IncompleteReadError):
        await reader.readexactly(1_000_000)
    writer.transport.abort()


class EarlyRefusals(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        self.addAsyncCleanup(server.wait_closed)
        self.addCleanup(server.close)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def test_the_asynchronous_client_tells_why(self) -> None:
        async with AsyncTollgate("tg_live_secret", self.url) as gate:
            with self.assertRaisesRegex(BadRequestError, "too large"):
                await gate.files.upload(FILE, session_id="sess_1")

    async def test_the_blocking_client_tells_why(self) -> None:
        def upload() -> None:
            with Tollgate("tg_live_secret", self.url) as gate:
                gate.files.upload(FILE, session_id="sess_1")

        with self.assertRaisesRegex(BadRequestError, "too large"):
            await asyncio.to_thread(upload)
