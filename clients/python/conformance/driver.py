# The clients' face to clients/conformance: reads a line, acts through the public API, says what it saw. `driver.py sync`
# drives Tollgate, `driver.py async` AsyncTollgate. Of the private parts it knows one: the sleep that it stands in for.

from __future__ import annotations

import asyncio
import builtins
import hashlib
import inspect
import io
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import tollgate
from tollgate import AsyncTollgate, Tollgate

Json = dict[str, Any]


class Line:
    """One line's client. What the blocking and the asynchronous one do differently is in `done` and `parts`."""

    def __init__(self, given: Json, kind: type[Tollgate] | type[AsyncTollgate]) -> None:
        self.waits: list[int] = []
        self.shown: list[str] = []
        seconds = {
            f"{name}_timeout": given[f"{name}_timeout_ms"] / 1000
            for name in ("connect", "idle")
            if f"{name}_timeout_ms" in given
        }
        plain = {name: given[name] for name in ("api_key", "base_url", "max_retries") if name in given}
        self.client: Any = kind(**plain, **seconds)
        self.is_async = kind is AsyncTollgate
        self.client._io._sleep = self._awaited_wait if self.is_async else self._wait
        self.shown += [repr(self.client), str(self.client), str(vars(self.client)), repr(self.client._core.settings)]

    def _wait(self, seconds: float) -> None:
        self.waits.append(round(seconds * 1000))

    async def _awaited_wait(self, seconds: float) -> None:
        self._wait(seconds)

    async def done(self, result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result

    async def parts(self, stream: Any) -> AsyncIterator[Any]:
        """For what needs no early end; a loop that is left is written out."""
        if hasattr(stream, "__aiter__"):
            async for part in stream:
                yield part
        else:
            for part in stream:
                yield part

    async def take(self, items: Any, most: int | None) -> list[Any]:
        taken: list[Any] = []
        if most == 0:
            return taken
        if hasattr(items, "__aiter__"):
            async for item in items:
                taken.append(item.raw)
                if len(taken) == most:
                    break
        else:
            for item in items:
                taken.append(item.raw)
                if len(taken) == most:
                    break
        return taken

    def told(self, error: BaseException) -> Json:
        name = type(error).__name__
        known = isinstance(error, tollgate.TollgateError)
        self.shown += [repr(error), str(error), str(vars(error)), repr(error.__cause__)]
        fields = ("status", "code", "type", "param", "request_id", "retry_after", "partial_text")
        said = {field: getattr(error, field, None) for field in fields}
        return {"class": name if known else f"builtin {name}", "message": str(error), **said}

    async def step(self, step: Json) -> Json:
        try:
            resource, _, method = step["op"].partition(".")
            act = getattr(self, f"{resource}_{method}" if method else resource, None)
            return {"ok": await (act(step) if act else self.plain(resource, method, step))}
        except StreamError as failed:
            return {"error": self.told(failed.error), **failed.seen}
        except Exception as error:
            return {"error": self.told(error)}

    async def plain(self, resource: str, method: str, step: Json) -> Any:
        act = getattr(getattr(self.client, resource), method)
        ids = [step[name] for name in ("session_id", "id") if name in step]
        params = {("from_" if name == "from" else name): value for name, value in step.get("params", {}).items()}
        result = await self.done(act(*ids, **params))
        if hasattr(result, "data"):
            return await self.take(result, step.get("take"))
        return None if result is None else result.raw

    async def chat_create(self, step: Json) -> Any:
        return (await self.done(self.client.chat.completions.create(**chat_params(step)))).raw

    async def chat_stream(self, step: Json) -> Json:
        stream = await self.done(self.client.chat.completions.create(**chat_params(step), stream=True))
        return await Watched(self, step, stream).watch()

    def _message(self, step: Json, **more: Any) -> Any:
        names = ("content", "messages", "idempotency_key")
        given = {name: step[name] for name in names if name in step}
        return self.client.messages.create(step["session_id"], **given, **step.get("params", {}), **more)

    async def messages_create(self, step: Json) -> Json:
        return await Watched(self, step, await self.done(self._message(step))).watch()

    async def messages_send(self, step: Json) -> Any:
        return (await self.done(self._message(step, stream=False))).raw

    async def messages_resume(self, step: Json) -> Json:
        cursor = {name: step[name] for name in ("last_event_id",) if name in step}
        stream = self.client.messages.resume(step["session_id"], step["id"], **cursor)
        return await Watched(self, step, await self.done(stream)).watch()

    async def messages_active(self, step: Json) -> Json | None:
        stream = await self.done(self.client.messages.active(step["session_id"]))
        return None if stream is None else await Watched(self, step, stream).watch()

    async def files_upload(self, step: Json) -> Json:
        progress: list[int] = []
        names = ("session_id", "filename", "content_type", "sha256", "purpose", "expires_after")
        given = {name: step[name] for name in names if name in step}
        upload = self.client.files.upload(source(step, self.is_async), **given, on_progress=progress.append)
        return {"file": (await self.done(upload)).raw, "progress": progress}

    async def files_content(self, step: Json) -> Json:
        progress: list[int] = []
        given = {name: step[name] for name in ("start", "etag") if name in step}
        call = self.client.files.content(step["id"], **given, on_progress=progress.append)
        download = await self.done(call)
        digest, count, most = hashlib.sha256(), 0, step.get("take", sys.maxsize)
        if self.is_async:
            async for piece in download:
                digest.update(piece)
                count += len(piece)
                if count >= most:
                    break
        else:
            for piece in download:
                digest.update(piece)
                count += len(piece)
                if count >= most:
                    break
        return {
            "bytes": count,
            "sha256": digest.hexdigest(),
            "content_type": download.content_type,
            "filename": download.filename,
            "progress": progress,
        }

    async def memory(self, _step: Json) -> Json:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        kibibytes = {name: int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM")}
        return {"rss": kibibytes["VmRSS"] * 1024, "peak": kibibytes["VmHWM"] * 1024}


class StreamError(Exception):
    def __init__(self, error: Exception, seen: Json) -> None:
        super().__init__()
        self.error = error
        self.seen = seen


class Watched:
    """A stream that is looped over as a step says."""

    def __init__(self, line: Line, step: Json, stream: Any) -> None:
        self.line = line
        self.stream = stream
        self.final: bool = step.get("final", False)
        self.leave_after: int = step.get("leave_after", -1)
        self.during: list[Json] = step.get("during", [])
        self.report: str = step.get("report", "digest")
        self.listed: list[Any] = []
        self.digest = hashlib.sha256()
        self.count = self.bytes = 0
        self.came: list[Json] = []

    async def watch(self) -> Json:
        try:
            if self.leave_after != 0:
                await self.loop()
        except Exception as error:
            raise StreamError(error, await self.seen()) from error
        return await self.seen()

    async def loop(self) -> None:
        if self.line.is_async:
            async for chunk in self.stream:
                if await self.leaves_after(chunk):
                    break
        else:
            for chunk in self.stream:
                if await self.leaves_after(chunk):
                    break

    async def leaves_after(self, chunk: Any) -> bool:
        self.count += 1
        if self.report == "digest":
            text = chunk.text.encode("utf-8", "surrogatepass")
            self.bytes += len(text)
            self.digest.update(text)
        else:
            self.listed.append(chunk.text if self.report == "texts" else chunk.raw)
        for also in self.during:
            if also["after"] == self.count:
                self.came.append(await self.side_step(also["step"]))
        return self.count == self.leave_after

    async def side_step(self, step: Json) -> Json:
        if step["op"] == "stream.close":
            return {"ok": await self.line.done(self.stream.close())}
        if step["op"] == "stream.cancel":
            return {"ok": (await self.line.done(self.stream.cancel())).raw}
        return await self.line.step(step)

    async def seen(self) -> Json:
        digest = {"count": self.count, "bytes": self.bytes, "sha256": self.digest.hexdigest()}
        ids = {name: getattr(self.stream, name, None) for name in ("message_id", "last_event_id")}
        seen = {"chunks": digest if self.report == "digest" else self.listed, **ids}
        if self.during:
            seen["during"] = self.came
        if self.final:
            try:
                seen["final"] = (await self.line.done(self.stream.final_message())).raw
            except Exception as error:
                seen["final_error"] = self.line.told(error)
        return seen


def chat_params(step: Json) -> Json:
    """What the API has a name for by its name, the rest as a user has to give it."""
    body: Json = dict(step["body"])
    named = {name: body.pop(name) for name in ("model", "messages", "seed") if name in body}
    return {**named, "extra_body": body}


def source(step: Json, is_async: bool) -> Any:
    if "path" in step:
        return step["path"]
    if "text" in step:
        text: bytes = step["text"].encode()
        return io.BytesIO(text) if len(text) % 2 else text
    return later(step["once"]) if is_async else once(step["once"])


def once(text: str) -> Iterator[bytes]:
    yield text.encode()


async def later(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


async def answer(given: Json, kind: type[Tollgate] | type[AsyncTollgate]) -> Json:
    try:
        line = Line(given.get("client", {}), kind)
    except tollgate.TollgateError as error:
        said = {"class": type(error).__name__, "message": str(error)}
        return {"steps": [{"error": said}], "waits": [], "shown": [repr(error), str(error)]}
    steps = [await line.step(step) for step in given["steps"]]
    open_clients.append(line.client)
    return {"steps": steps, "waits": line.waits, "shown": line.shown}


# Kept, as a user's is: what a client does when its loop is left must not be the garbage collector's doing.
open_clients: list[Any] = []


async def main() -> None:
    kind = AsyncTollgate if sys.argv[1] == "async" else Tollgate
    loop = asyncio.get_running_loop()
    while True:
        # Read in a thread: what was left in the event loop goes on while the next line is waited for.
        text = await loop.run_in_executor(None, sys.stdin.readline)
        if not text:
            return
        sys.stdout.write(json.dumps(await answer(json.loads(text), kind)) + "\n")
        sys.stdout.flush()
        for client in open_clients[:-1]:
            result = client.close()
            if inspect.isawaitable(result):
                await result
        del open_clients[:-1]


if __name__ == "__main__":
    assert builtins.issubclass(tollgate.TimeoutError, builtins.TimeoutError)
    asyncio.run(main())
