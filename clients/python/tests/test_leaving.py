# However a stream is left, its connection is closed: by the end of `with`, by leaving the loop, by being forgotten.

from __future__ import annotations

import asyncio
import gc
import unittest
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import transport
from transport import Body, event

from tollgate_gateway import AsyncMessageStream, NotFoundError, TollgateError

QUESTION: dict[str, Any] = {"model": "demo", "messages": [], "stream": True}


class Leaving(unittest.TestCase):
    def setUp(self) -> None:
        self.body = Body(event("a"), event("b"))
        self.gate = transport.client(lambda _request: transport.stream(body=self.body))

    def test_the_end_of_with_closes_at_once(self) -> None:
        with self.gate.chat.completions.create(**QUESTION):
            self.assertFalse(self.body.is_closed)
        self.assertTrue(self.body.is_closed)

    def test_break_closes_while_the_stream_is_still_held(self) -> None:
        stream = self.gate.chat.completions.create(**QUESTION)
        for _chunk in stream:
            break
        self.assertTrue(self.body.is_closed)
        with self.assertRaises(TollgateError):
            list(stream)

    def test_an_error_in_the_loop_closes(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            for _chunk in self.gate.chat.completions.create(**QUESTION):
                _ = 1 / 0
        gc.collect()
        self.assertTrue(self.body.is_closed)

    def test_one_that_is_forgotten_is_closed(self) -> None:
        self.gate.chat.completions.create(**QUESTION)
        gc.collect()
        forgotten, self.body = self.body, Body()
        self.gate.chat.completions.create(**QUESTION)
        self.assertTrue(forgotten.is_closed)

    def test_nothing_to_resume_is_closed_though_its_message_is_gone(self) -> None:
        self.body = Nothing()

        def answer(request: httpx.Request) -> httpx.Response:
            is_stream = request.url.path.endswith("/stream")
            return httpx.Response(204, stream=self.body) if is_stream else httpx.Response(404)

        with self.assertRaises(NotFoundError):
            transport.client(answer).messages.resume("sess_1", "msg_1")
        self.assertTrue(self.body.is_closed)

    def test_one_that_is_forgotten_is_closed_with_its_client(self) -> None:
        self.gate.chat.completions.create(**QUESTION)
        gc.collect()
        self.gate.close()
        self.assertTrue(self.body.is_closed)

    def test_next_does_not_leave(self) -> None:
        stream = self.gate.chat.completions.create(**QUESTION)
        self.assertEqual([next(stream).text, next(stream).text], ["a", "b"])
        self.assertFalse(self.body.is_closed)
        stream.close()


class AsyncLeaving(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.body = Body(event("a"), event("b"))
        self.gate = transport.async_client(lambda _request: transport.stream(body=self.body))

    async def turns_of_the_loop(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def test_the_end_of_with_closes_at_once(self) -> None:
        async with await self.gate.chat.completions.create(**QUESTION):
            self.assertFalse(self.body.is_closed)
        self.assertTrue(self.body.is_closed)

    async def test_break_closes_while_the_stream_is_still_held(self) -> None:
        stream = await self.gate.chat.completions.create(**QUESTION)
        async for _chunk in stream:
            break
        await self.turns_of_the_loop()
        self.assertTrue(self.body.is_closed)

    async def test_one_that_is_forgotten_is_closed(self) -> None:
        await self.gate.chat.completions.create(**QUESTION)
        gc.collect()
        await self.turns_of_the_loop()
        self.assertTrue(self.body.is_closed)

    async def test_a_task_that_is_cancelled_closes(self) -> None:
        reached = asyncio.Event()

        async def read() -> None:
            async for _chunk in await self.gate.chat.completions.create(**QUESTION):
                reached.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(read())
        await reached.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.turns_of_the_loop()
        self.assertTrue(self.body.is_closed)

    async def test_closed_by_another_task_it_ends_and_is_not_resumed(self) -> None:
        asked: list[str] = []
        silent = Silent(event("a", id="c"))

        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request.method)
            return transport.stream(body=silent)

        stream = await transport.async_client(answer).messages.create("sess_1", "Hi")
        reading = asyncio.create_task(texts_of(stream))
        while not stream.partial_text:
            await asyncio.sleep(0)
        await stream.close()
        self.assertEqual(await reading, ["a"])
        self.assertEqual(asked, ["POST"])

    async def test_a_download_that_is_closed_by_another_task_is_no_short_file(self) -> None:
        silent = Silent(b"hello")
        head = {"content-length": "10", "etag": '"e"'}
        gate = transport.async_client(lambda _: httpx.Response(200, headers=head, stream=silent))
        download = await gate.files.content("file_1")
        reading = asyncio.create_task(download.read())
        while not download.position:
            await asyncio.sleep(0)
        await download.close()
        with self.assertRaisesRegex(TollgateError, "closed before its end"):
            await reading


class Nothing(Body):
    def __iter__(self) -> Iterator[bytes]:
        return iter(())


class Silent(Body):
    """Nothing more comes until it is closed, and closing breaks the read."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        while not self.is_closed:
            await asyncio.sleep(0)
        raise httpx.ReadError("closed")


async def texts_of(stream: AsyncMessageStream) -> list[str]:
    return [chunk.text async for chunk in stream]
