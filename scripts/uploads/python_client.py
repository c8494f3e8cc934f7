"""Uploads a file and downloads it again, by `requests` or `httpx` as their manuals have it. Prints what it saw as JSON.

argv: the library, the ask (test/fixtures/uploads/cases.ts) as JSON.
"""

import hashlib
import json
import sys

library, ask = sys.argv[1], json.loads(sys.argv[2])
client = __import__(library)
authorization = {"Authorization": "Bearer " + ask["key"]}


def digest(content):
    return hashlib.sha256(content).hexdigest()


with open(ask["path"], "rb") as content:
    sent = client.post(
        ask["url"] + "/api/files/upload",
        headers=authorization,
        data={"session_id": ask["session"], "sha256": ask["sha256"]},
        files={"file": (ask["name"], content)},
    )
came = {"status": sent.status_code, "answer": sent.json()}
came.update(whole=None, part=None, partStatus=None, contentRange=None)
if sent.status_code == 201:
    url = ask["url"] + sent.headers["Location"]
    came["whole"] = digest(client.get(url, headers=authorization).content)
    part = client.get(url, headers={**authorization, "Range": ask["range"]})
    came["part"] = digest(part.content)
    came["partStatus"] = part.status_code
    came["contentRange"] = part.headers.get("Content-Range")
print(json.dumps(came))
