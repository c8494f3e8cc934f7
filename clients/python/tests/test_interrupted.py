# An interruption is never taken for the end: by another thread, by a cancelled task, by a loop that has ended. And no
# error shows the key.

from __future__ import annotations

import asyncio
import gc
import time
import traceback
import unittest
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx
import transport
from transport import Body, client, event

from tollgate_gateway import AsyncTollgate, IncompleteStreamError, Tollgate, TollgateError

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
LIST = b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}'


class Interrupted(unittest.IsolatedAsyncioTestCase):
    async def serving(self, said: bytes, has_hung_up: asyncio.Event | None = None) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(said)
            if has_hung_up:
                has_hung_up.set()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.addCleanup(server.close)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def test_a_stream_that_another_thread_closes_ends_at_once(self) -> None:
        has_hung_up = asyncio.Event()
        url = await self.serving(HEAD + event("a"), has_hung_up)
        with Tollgate("tg_live_secret", url) as gate:
            stream = await asyncio.to_thread(
                lambda: gate.chat.completions.create(model="demo", messages=[], stream=True)
            )
            reading = asyncio.create_task(asyncio.to_thread(lambda: [one.text for one in stream]))
            while not stream.partial_text:
                await asyncio.sleep(0.01)
            # The reader waits for more.
            await asyncio.to_thread(time.sleep, 0.1)
            stream.close()
            self.assertEqual(await asyncio.wait_for(reading, 10), ["a"])
            await asyncio.wait_for(has_hung_up.wait(), 10)

    async def test_two_loops_at_once_are_told_both(self) -> None:
        url = await self.serving(HEAD + event("a"))

        async def read(stream: Any) -> list[str]:
            return [one.text async for one in stream]

        def read_blocking(stream: Any) -> list[str]:
            return [one.text for one in stream]

        question: Any = {"model": "demo", "messages": [], "stream": True}
        with Tollgate("tg_live_secret", url) as gate:
            stream = await asyncio.to_thread(lambda: gate.chat.completions.create(**question))
            loops = [asyncio.to_thread(read_blocking, stream) for _ in range(2)]
            ends = await asyncio.wait_for(asyncio.gather(*loops, return_exceptions=True), 10)
            self.assertEqual([type(end) for end in ends], [TollgateError] * 2)
        async with AsyncTollgate("tg_live_secret", url) as other:
            again = await other.chat.completions.create(**question)
            tasks = [read(again) for _ in range(2)]
            ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
            self.assertEqual([type(end) for end in ends], [TollgateError] * 2)

    async def test_a_cancelled_read_is_not_the_end_of_a_file(self) -> None:
        class Slow(Body):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                yield b"abc"
                await asyncio.sleep(60)

        gate = transport.async_client(lambda _request: httpx.Response(200, stream=Slow()))
        download = await gate.files.content("file_1")
        self.assertEqual(await download.__anext__(), b"abc")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(download.__anext__(), 0.01)
        with self.assertRaises(IncompleteStreamError):
            await download.__anext__()

    async def test_a_piece_of_nothing_is_not_the_end_of_a_source(self) -> None:
        sent: list[bytes] = []

        async def answer(request: httpx.Request) -> httpx.Response:
            sent.append(await request.aread())
            return httpx.Response(200, json={})

        gate = transport.async_client(answer)
        await gate.files.upload([b"first", b"", b"second"], session_id="sess_1")
        self.assertIn(b"firstsecond", sent[0])

    async def test_a_client_outlives_its_event_loop(self) -> None:
        url = await self.serving(LIST)
        gate = AsyncTollgate("tg_live_secret", url, max_retries=0)

        async def ask() -> int:
            return len((await gate.models.list()).data)

        for _ in range(3):
            self.assertEqual(await asyncio.to_thread(lambda: asyncio.run(ask())), 0)
        await gate.close()
        with warnings.catch_warnings():
            # Objects of asyncio itself, which its loops left open.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        await asyncio.sleep(0.05)


class Shown(unittest.TestCase):
    def test_variables_of_a_traceback_have_no_key(self) -> None:
        gate = client(lambda _request: httpx.Response(500), max_retries=0)
        bad: Any = object()
        calls: list[Callable[[], object]] = [
            lambda: gate.models.list(),
            lambda: gate.models.retrieve(""),
            lambda: gate.sessions.create(title=bad),
            lambda: gate.models.list(extra_headers={"x-note": "é"}),
            lambda: gate.models.list(extra_headers={"x-note": "a\nb"}),
        ]
        for call in calls:
            with self.assertRaises(TollgateError) as caught:
                call()
            told = traceback.TracebackException.from_exception(
                caught.exception, capture_locals=True
            )
            self.assertNotIn("tg_live_secret", "".join(told.format()))

    def test_a_stream_that_comes_packed_is_refused(self) -> None:
        def answer(_request: httpx.Request) -> httpx.Response:
            headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
            return httpx.Response(200, headers=headers, stream=Body())

        with self.assertRaisesRegex(TollgateError, "packed"):
            client(answer).chat.completions.create(model="demo", messages=[], stream=True)

    def test_what_could_not_be_made_can_be_shown(self) -> None:
        half = Tollgate.__new__(Tollgate)
        self.assertEqual(repr(half), "Tollgate(base_url=None)")
