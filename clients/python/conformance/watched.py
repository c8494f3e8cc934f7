# Loops over a stream as a step says, and records what was seen; with both loops, blocking and asynchronous.

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


class StreamError(Exception):
    """Carries what was seen before it."""

    def __init__(self, error: Exception, seen: Json) -> None:
        super().__init__()
        self.error = error
        self.seen = seen


async def watch(line: Any, step: Json, stream: Any) -> Json:
    watched = Watched(line, step, stream)
    try:
        if step.get("leave_after") != 0:
            await loop_over(stream, watched.take)
    except Exception as error:
        raise StreamError(error, await watched.seen()) from error
    return await watched.seen()


class Watched:
    def __init__(self, line: Any, step: Json, stream: Any) -> None:
        self.line = line
        self.step = step
        self.stream = stream
        self.digest = hashlib.sha256()
        self.count = self.bytes = 0
        self.listed: list[Any] = []
        self.during: list[Json] = []

    async def take(self, chunk: Any) -> bool:
        self.count += 1
        report = self.step.get("report", "digest")
        if report == "digest":
            text = chunk.text.encode("utf-8", "surrogatepass")
            self.bytes += len(text)
            self.digest.update(text)
        else:
            self.listed.append(chunk.text if report == "texts" else chunk.raw)
        for also in self.step.get("during", []):
            if also["after"] == self.count:
                self.during.append(await self.act(also["step"]))
        return self.count == self.step.get("leave_after")

    async def act(self, step: Json) -> Json:
        resource, _, method = step["op"].partition(".")
        if resource != "stream":
            said: Json = await self.line.step(step)
            return said
        try:
            result = await done(getattr(self.stream, method)())
            return {"ok": None if result is None else result.raw}
        except Exception as error:
            return {"error": self.line.told(error)}

    async def seen(self) -> Json:
        digest = {"count": self.count, "bytes": self.bytes, "sha256": self.digest.hexdigest()}
        is_digest = self.step.get("report", "digest") == "digest"
        seen: Json = {"chunks": digest if is_digest else self.listed}
        for name in ("message_id", "last_event_id"):
            seen[name] = getattr(self.stream, name, None) or None
        if "during" in self.step:
            seen["during"] = self.during
        if self.step.get("final"):
            try:
                seen["final"] = (await done(self.stream.final_message())).raw
            except Exception as error:
                seen["final_error"] = self.line.told(error)
        return seen


async def done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def loop_over(parts: Any, leaves_after: Callable[[Any], Any]) -> None:
    """Leaves as a user would: by `break` only."""
    if hasattr(parts, "__aiter__"):
        async for part in parts:
            if await leaves_after(part):
                break
    else:
        for part in parts:
            if await leaves_after(part):
                break
