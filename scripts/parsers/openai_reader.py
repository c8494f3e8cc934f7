"""Reads one session stream with OpenAI's package for Python, by its own way to routes it does not know. Prints what was seen.

    python openai_reader.py sync|async '{"url": …, "key": …, "method": …, "path": …, "body"?: …, "lastEventId"?: …}'
"""

import asyncio
import json
import sys

import openai
from openai.types.chat import ChatCompletionChunk

kind, ask = sys.argv[1], json.loads(sys.argv[2])
CLIENT = {"base_url": ask["url"] + "/v1", "api_key": ask["key"], "max_retries": 0}
headers = {"Last-Event-ID": ask["lastEventId"]} if "lastEventId" in ask else {}
OPTIONS = {"cast_to": ChatCompletionChunk, "options": {"headers": headers}, "stream": True}
if "body" in ask:
    OPTIONS["body"] = ask["body"]

seen = {"text": "", "ending": "nothing"}


def take(chunk):
    for choice in chunk.choices:
        seen["text"] += choice.delta.content or ""
        if choice.finish_reason == "stop":
            seen["ending"] = "completed"


def read():
    with openai.OpenAI(**CLIENT) as client:
        send = client.post if ask["method"] == "POST" else client.get
        for chunk in send(ask["path"], **OPTIONS, stream_cls=openai.Stream[ChatCompletionChunk]):
            take(chunk)


async def read_async():
    async with openai.AsyncOpenAI(**CLIENT) as client:
        send = client.post if ask["method"] == "POST" else client.get
        stream_cls = openai.AsyncStream[ChatCompletionChunk]
        async for chunk in await send(ask["path"], **OPTIONS, stream_cls=stream_cls):
            take(chunk)


try:
    if kind == "async":
        asyncio.run(read_async())
    else:
        read()
except openai.APIError as error:
    seen["ending"] = error.code
print(json.dumps(seen))
