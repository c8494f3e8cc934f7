# What is Python's own: sources of uploads, files that downloads are written to, options of a call, keys that stay hidden.

from __future__ import annotations

import io
import json
import os
import pickle
import tempfile
import threading
import unittest
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import certifi
import httpx
import transport
from transport import DONE, event

from tollgate_gateway import (
    APIError,
    Chunk,
    IncompleteStreamError,
    RateLimitError,
    Tollgate,
    TollgateError,
)
from tollgate_gateway._http import _trusted

FILE = {"id": "file_1", "bytes": 5}


class Uploads(unittest.TestCase):
    def setUp(self) -> None:
        self.bodies: list[bytes] = []
        self.lengths: list[str | None] = []
        self.refusals = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.read())
        self.lengths.append(request.headers.get("content-length"))
        if len(self.bodies) <= self.refusals:
            return httpx.Response(503)
        return httpx.Response(201, json=FILE)

    def upload(self, file: Any, **options: Any) -> None:
        transport.client(self.answer).files.upload(file, session_id="sess_1", **options)

    def test_a_file_is_sent_from_where_it_stands_and_again_from_there(self) -> None:
        self.refusals = 1
        file = io.BytesIO(b"skip hello")
        file.seek(5)
        self.upload(file)
        self.assertEqual(self.bodies[0], self.bodies[1])
        self.assertIn(b"\r\n\r\nhello\r\n", self.bodies[0])
        self.assertEqual(self.lengths[0], str(len(self.bodies[0])))

    def test_a_path_gives_its_name_and_type(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.txt")
            path.write_text("hello")
            self.upload(path)
        self.assertIn(b'filename="a.txt"\r\nContent-Type: text/plain', self.bodies[0])

    def test_what_gives_bytes_has_no_length(self) -> None:
        self.upload(iter([b"hel", b"lo"]))
        self.upload([b"hello"])
        self.assertEqual(self.lengths, [None, None])
        self.assertIn(b"\r\n\r\nhello\r\n", self.bodies[0])

    def test_text_is_no_file(self) -> None:
        with self.assertRaises(TypeError):
            self.upload(io.StringIO("hello"))

    def test_progress_does_not_go_back(self) -> None:
        self.refusals = 2
        told: list[tuple[int, int | None]] = []
        self.upload(b"x" * 600_000, on_progress=lambda *said: told.append(said))
        self.assertEqual(told, [(sent, 600_000) for sent in (262_144, 524_288, 600_000)])

    def test_what_gives_bytes_has_no_total(self) -> None:
        told: list[tuple[int, int | None]] = []
        self.upload(iter([b"hel", b"lo"]), on_progress=lambda *said: told.append(said))
        self.assertEqual(told, [(3, None), (5, None)])

    def test_what_can_be_measured_has_a_total(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.txt")
            path.write_bytes(b"hello")
            told: list[tuple[int, int | None]] = []
            self.upload(path, on_progress=lambda *said: told.append(said))
            self.upload(str(path), on_progress=lambda *said: told.append(said))
            with path.open("rb") as file:
                file.seek(2)
                self.upload(file, on_progress=lambda *said: told.append(said))
        self.assertEqual(told, [(5, 5), (5, 5), (3, 3)])

    def test_a_source_to_await_needs_the_other_client(self) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"hello"

        with self.assertRaisesRegex(TollgateError, "AsyncTollgate"):
            self.upload(pieces())


class AsyncUploads(unittest.IsolatedAsyncioTestCase):
    async def test_a_disk_is_waited_for_in_a_thread(self) -> None:
        threads: set[int] = set()

        class Slow(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                if size:
                    threads.add(threading.get_ident())
                return super().read(size)

        async def answer(request: httpx.Request) -> httpx.Response:
            self.assertIn(b"hello", await request.aread())
            return httpx.Response(201, json=FILE)

        await transport.async_client(answer).files.upload(Slow(b"hello"), session_id="sess_1")
        self.assertTrue(threads)
        self.assertNotIn(threading.get_ident(), threads)


class Downloads(unittest.TestCase):
    def answer(self, request: httpx.Request) -> httpx.Response:
        start = int(request.headers.get("range", "bytes=0-")[6:-1])
        headers = {"etag": '"e"', "content-range": f"bytes {start}-9/10"}
        content = b"0123456789"[start:]
        return httpx.Response(206 if start else 200, headers=headers, content=content)

    def test_one_that_goes_on_is_put_behind_what_is_there(self) -> None:
        gate = transport.client(self.answer)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a")
            path.write_bytes(b"01234")
            download = gate.files.content("file_1", start=5, etag='"e"')
            self.assertEqual(download.write_to(path), 5)
            self.assertEqual(path.read_bytes(), b"0123456789")
            self.assertEqual((download.size, download.position), (10, 10))
            self.assertEqual(gate.files.content("file_1").write_to(path), 10)
            self.assertEqual(path.read_bytes(), b"0123456789")

    def test_one_that_goes_on_is_not_put_behind_another_file(self) -> None:
        with self.assertRaises(IncompleteStreamError):
            transport.client(self.answer).files.content("file_1", start=5, etag='"other"')


class Options(unittest.TestCase):
    def test_of_a_call_are_not_of_its_body(self) -> None:
        seen: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return httpx.Response(200, json={"id": "msg_1"})

        transport.client(answer, headers={"X-A": "client", "X-B": "client"}).messages.create(
            "sess_1",
            "Hi",
            stream=False,
            files=["file_1"],
            idle_timeout=7,
            extra_headers={"x-b": "call"},
            extra_body={"top_k": 4},
        )
        parts = [
            {"type": "text", "text": "Hi"},
            {"type": "file", "file": {"file_id": "file_1"}},
        ]
        body = json.loads(seen[0].content)
        self.assertEqual(body, {"content": parts, "stream": False, "top_k": 4})
        self.assertEqual((seen[0].headers["x-a"], seen[0].headers["x-b"]), ("client", "call"))
        timeout = seen[0].extensions["timeout"]
        self.assertEqual((timeout["connect"], timeout["write"], timeout["read"]), (10, 7, 7))

    def test_a_call_may_have_its_own_retries(self) -> None:
        calls: list[int] = []

        def answer(_request: httpx.Request) -> httpx.Response:
            calls.append(1)
            return httpx.Response(429)

        with self.assertRaises(RateLimitError):
            transport.client(answer).models.list(max_retries=0)
        self.assertEqual(len(calls), 1)

    def test_another_s_http_client_is_not_closed(self) -> None:
        with httpx.Client() as http_client:
            Tollgate("tg_live_secret", "http://gate.test", http_client=http_client).close()
            self.assertFalse(http_client.is_closed)


class Keys(unittest.TestCase):
    def test_one_that_no_header_can_carry_is_refused_unshown(self) -> None:
        for key in ("tg_live_a\nb", "tg_live_ü", "tg live"):
            with self.assertRaises(TollgateError) as raised:
                Tollgate(key)
            self.assertNotIn(key, repr(raised.exception))

    def test_one_that_is_told_back_is_hidden(self) -> None:
        said = {"error": {"message": "no such key: tg_live_secret", "code": "invalid_api_key"}}
        gate = transport.client(lambda _request: httpx.Response(401, json=said))
        with self.assertRaisesRegex(APIError, r"no such key: \*\*\*"):
            gate.models.list()

    def test_a_user_in_the_url_is_refused(self) -> None:
        for url in (
            "http://me:word@gate.test",
            "gate.test",
            "ftp://gate.test",
            "http://[",
            "http://",
        ):
            with self.assertRaises(TollgateError):
                Tollgate("tg_live_secret", url)


class Certificates(unittest.TestCase):
    def test_are_read_again_when_they_have_changed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ca.pem")
            path.write_bytes(Path(certifi.where()).read_bytes())
            with mock.patch.dict(os.environ, {"SSL_CERT_FILE": str(path)}):
                before = _trusted()
                self.assertIs(_trusted(), before)
                os.utime(path, ns=(1, 1))
                self.assertIsNot(_trusted(), before)


class Texts(unittest.TestCase):
    def test_a_letter_in_two_halves_is_whole_in_the_text_so_far(self) -> None:
        gate = transport.client(lambda _: transport.stream(event("\ud83d"), event("\ude00"), DONE))
        stream = gate.chat.completions.create(model="demo", messages=[], stream=True)
        self.assertEqual(len(list(stream)), 2)
        self.assertEqual(stream.partial_text, "😀")

    def test_errors_and_chunks_can_be_sent_to_other_processes(self) -> None:
        error = RateLimitError("slow down", status=429, code="rate_limit_exceeded", retry_after=2)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.status, again.retry_after, str(again)), (429, 2, str(error)))
        chunk = Chunk({"id": "c"}, "text")
        self.assertEqual(pickle.loads(pickle.dumps(chunk)), chunk)
