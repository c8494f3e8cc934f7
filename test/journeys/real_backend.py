"""What a user of OpenAI's Python package does, changed in nothing but base_url. Prints what was seen as one JSON object.

    python real_backend.py '{"base_url": …, "key": …, "poor": …, "narrow": …}'
"""

import json
import sys

import openai

given = json.loads(sys.argv[1])
MESSAGES = [{"role": "user", "content": "Say something."}]
TINY = {"model": "tiny", "messages": MESSAGES, "max_tokens": 40}


def client(key):
    return openai.OpenAI(base_url=given["base_url"], api_key=key, max_retries=0)


def whole(chat):
    raw = chat.with_raw_response.create(**TINY)
    answer = raw.parse()
    return {
        "request_id": raw.headers["x-request-id"],
        "text": answer.choices[0].message.content,
        "usage": answer.usage.model_dump(),
    }


def streamed(chat):
    raw = chat.with_raw_response.create(**TINY, stream=True, stream_options={"include_usage": True})
    text, usage, finish = "", None, None
    for chunk in raw.parse():
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return {
        "request_id": raw.headers["x-request-id"],
        "text": text,
        "usage": usage.model_dump(),
        "finish": finish,
    }


def refusal(call):
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code]
    return None


api = client(given["key"])
create = api.chat.completions.create
narrow = client(given["narrow"]).chat.completions.create
print(
    json.dumps(
        {
            "models": [model.id for model in api.models.list()],
            "whole": whole(api.chat.completions),
            "streamed": streamed(api.chat.completions),
            "embeddings": len(api.embeddings.create(model="embed", input=["one", "two"]).data),
            "refusals": {
                "key": refusal(lambda: client(given["key"][:-1] + "!").models.list()),
                "balance": refusal(lambda: client(given["poor"]).chat.completions.create(**TINY)),
                "model": refusal(lambda: create(model="nothing", messages=MESSAGES)),
                "ours": refusal(lambda: create(**{**TINY, "max_tokens": -1})),
                "theirs": refusal(lambda: create(**TINY, extra_body={"temperature": "hot"})),
                # Of three in a row two are in one minute, which has room for one.
                "limit": refusal(lambda: [narrow(**TINY) for _ in range(3)]),
            },
        }
    )
)
