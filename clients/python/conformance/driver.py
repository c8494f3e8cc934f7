# The clients' face to clients/conformance: reads a line, acts through the public API, says what it saw. `driver.py
# sync` drives Tollgate, `driver.py async` AsyncTollgate. Of the private parts it knows one: the sleep that it stands in
# for.

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Optional

from watched import Json, StreamError, done, loop_over, watch

import tollgate_gateway
from tollgate_gateway import AsyncTollgate, Tollgate


class Line:
    """One line's client and its steps. An op that has no method here is the client's own, as it is."""

    def __init__(self, given: Json, is_async: bool) -> None:
        self.waits: list[int] = []
        names = ("api_key", "base_url", "max_retries")
        options = {name: given[name] for name in names if name in given}
        for name in ("connect_timeout", "idle_timeout"):
            if f"{name}_ms" in given:
                options[name] = given[f"{name}_ms"] / 1000
        self.client: Any = AsyncTollgate(**options) if is_async else Tollgate(**options)
        io: Any = self.client._io
        io._sleep = self._no_pause if is_async else self._no_sleep
        self.is_async = is_async
        self.shown = [repr(self.client), str(vars(self.client)), repr(self.client._core.settings)]

    def _no_sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds * 1000))

    async def _no_pause(self, seconds: float) -> None:
        self._no_sleep(seconds)

    async def step(self, step: Json) -> Json:
        resource, _, method = step["op"].partition(".")
        own = getattr(self, f"{resource}_{method}", None)
        try:
            return {"ok": await (own(step) if own else self.any(resource, method, step))}
        except StreamError as failed:
            return {"error": self.told(failed.error), **failed.seen}
        except Exception as error:
            return {"error": self.told(error)}

    def told(self, error: BaseException) -> Json:
        self.shown += [repr(error), str(error), str(vars(error)), repr(error.__cause__)]
        fields = ("status", "code", "type", "param", "request_id", "retry_after", "partial_text")
        said = {field: getattr(error, field, None) for field in fields}
        kind = type(error)
        name = kind.__name__ if issubclass(kind, tollgate_gateway.TollgateError) else repr(kind)
        message = getattr(error, "message", str(error))
        return {"class": name, "message": message, "text": str(error), **said}

    async def any(self, resource: str, method: str, step: Json) -> Any:
        ids = [step[name] for name in ("session_id", "id") if name in step]
        params = dict(step.get("params", {}))
        if "from" in params:
            params["from_"] = params.pop("from")
        result = await done(getattr(getattr(self.client, resource), method)(*ids, **params))
        if not hasattr(result, "data"):
            return None if result is None else result.raw
        taken: list[Any] = []

        async def take(item: Any) -> bool:
            taken.append(item.raw)
            return len(taken) == step.get("take")

        await loop_over(result, take)
        return taken

    async def chat_create(self, step: Json) -> Any:
        return (await done(self.client.chat.completions.create(**chat_params(step)))).raw

    async def chat_stream(self, step: Json) -> Json:
        stream = self.client.chat.completions.create(**chat_params(step), stream=True)
        return await watch(self, step, await done(stream))

    async def messages_create(self, step: Json) -> Json:
        return await watch(self, step, await self._sent(step))

    async def messages_send(self, step: Json) -> Any:
        return (await self._sent(step, stream=False)).raw

    async def _sent(self, step: Json, **more: Any) -> Any:
        given = given_of(step, "content", "messages", "idempotency_key")
        params = step.get("params", {})
        return await done(
            self.client.messages.create(step["session_id"], **given, **params, **more)
        )

    async def messages_resume(self, step: Json) -> Json:
        given = given_of(step, "last_event_id")
        stream = self.client.messages.resume(step["session_id"], step["id"], **given)
        return await watch(self, step, await done(stream))

    async def messages_active(self, step: Json) -> Json | None:
        stream = await done(self.client.messages.active(step["session_id"]))
        return None if stream is None else await watch(self, step, stream)

    async def files_upload(self, step: Json) -> Json:
        progress: list[Reported] = []
        names = ("session_id", "filename", "content_type", "sha256", "purpose", "expires_after")
        file = self._source(step)
        given = given_of(step, *names)
        upload = self.client.files.upload(file, **given, on_progress=recorder(progress))
        return {"file": (await done(upload)).raw, "progress": progress}

    def _source(self, step: Json) -> Any:
        if "once" in step:
            return later(step["once"]) if self.is_async else once(step["once"])
        return step["path"] if "path" in step else step["text"].encode()

    async def files_content(self, step: Json) -> Json:
        progress: list[Reported] = []
        given = given_of(step, "start", "etag")
        fetched = self.client.files.content(step["id"], **given, on_progress=recorder(progress))
        download = await done(fetched)
        digest, count = hashlib.sha256(), 0

        async def take(piece: bytes) -> bool:
            nonlocal count
            digest.update(piece)
            count += len(piece)
            return bool(count >= step.get("take", sys.maxsize))

        await loop_over(download, take)
        return {
            "bytes": count,
            "sha256": digest.hexdigest(),
            "content_type": download.content_type,
            "filename": download.filename,
            "progress": progress,
        }

    async def memory_(self, _step: Json) -> Json:
        lines = dict(line.split(":", 1) for line in proc_status())
        rss, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return {"rss": rss, "peak": peak}


Reported = tuple[int, Optional[int]]


def recorder(into: list[Reported]) -> Callable[[int, int | None], None]:
    return lambda at, total: into.append((at, total))


def given_of(step: Json, *names: str) -> Json:
    return {name: step[name] for name in names if name in step}


def chat_params(step: Json) -> Json:
    """Parameters that the API has names for go by name, the others in `extra_body`, as a user must give them."""
    body = dict(step["body"])
    named = {name: body.pop(name) for name in ("model", "messages") if name in body}
    return {**named, "extra_body": body}


def once(text: str) -> Iterator[bytes]:
    yield text.encode()


async def later(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def proc_status() -> list[str]:
    with open("/proc/self/status") as status:
        return list(status)


async def answer(line: Line, steps: list[Json]) -> Json:
    return {
        "steps": [await line.step(step) for step in steps],
        "waits": line.waits,
        "shown": line.shown,
    }


def refused(error: Exception) -> Json:
    said = {"class": type(error).__name__, "message": str(error)}
    return {"steps": [{"error": said}], "waits": [], "shown": [repr(error), str(error)]}


async def main() -> None:
    loop = asyncio.get_running_loop()
    previous: Line | None = None
    while True:
        # Read in a thread, so that the event loop goes on while the next line is waited for.
        text = await loop.run_in_executor(None, sys.stdin.readline)
        # A line's client lives until the next line: a stream that its loop has left must be closed by the loop itself.
        if previous is not None:
            await done(previous.client.close())
        if not text:
            return
        given = json.loads(text)
        try:
            previous = Line(given.get("client", {}), sys.argv[1] == "async")
            said = await answer(previous, given["steps"])
        except tollgate_gateway.TollgateError as error:
            previous, said = None, refused(error)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
