# Gives schemathesis what it can't guess: the ids of a session, a message and a file that exist, made anew when a test
# has deleted them; and the name of a model.

import itertools
import os
import threading

import requests
import schemathesis

_URL = os.environ["TOLLGATE_URL"]
_AUTHORIZATION = {"Authorization": f"Bearer {os.environ['TOLLGATE_KEY']}"}
_EVERY = 3


class _Ids(threading.local):
    """Ids of one thread's own; every few uses they are checked, and made again if they are gone."""

    session = ""
    message = ""
    file = ""


_ids = _Ids()
_count = itertools.count()


def _ask(method, path, **more):
    return requests.request(method, _URL + path, headers=_AUTHORIZATION, timeout=20, **more)


def _made():
    path = f"/api/chat/sessions/{_ids.session}"
    if not _ids.session or _ask("GET", path).status_code != 200:
        _ids.session = _ask("POST", "/api/chat/sessions", json={}).json()["id"]
        path = f"/api/chat/sessions/{_ids.session}"
        body = {"content": "Hi", "model": "m", "stream": False}
        _ids.message = _ask("POST", f"{path}/messages", json=body).json()["id"]
        _ids.file = ""
    if not _ids.file or _ask("GET", f"/api/files/{_ids.file}/metadata").status_code != 200:
        form = {"session_id": (None, _ids.session), "file": ("a.txt", b"some text")}
        _ids.file = _ask("POST", "/api/files/upload", files=form).json()["id"]
    return _ids


def _is_for(path, prefix):
    return path.startswith(prefix)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Most requests get ids that exist; the others what schemathesis made."""
    if not path_parameters or next(_count) % _EVERY == 0:
        return path_parameters
    path = context.operation.path
    if _is_for(path, "/api/chat/sessions/"):
        ids = _made()
        names = {"id": ids.session, "mid": ids.message}
        return {name: names.get(name, value) for name, value in path_parameters.items()}
    if _is_for(path, "/api/files/"):
        return {**path_parameters, "id": _made().file}
    if _is_for(path, "/v1/models/"):
        return {**path_parameters, "id": "m"}
    if _is_for(path, "/docs/"):
        return {**path_parameters, "file": "page.js"}
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    """A place in the stream of a message that exists."""
    if query and "starting_after" in query and next(_count) % _EVERY:
        return {**query, "starting_after": "0"}
    return query


@schemathesis.hook
def map_headers(context, headers):
    if headers and "Last-Event-ID" in headers and next(_count) % _EVERY:
        return {**headers, "Last-Event-ID": f"{_made().message}:0"}
    return headers


@schemathesis.hook
def map_body(context, body):
    """A model that exists, in most bodies that have a model; a session for a file."""
    if not isinstance(body, dict) or next(_count) % _EVERY == 0:
        return body
    if isinstance(body.get("model"), str):
        body = {**body, "model": "m"}
    if context.operation.path == "/api/files/upload":
        body = {**body, "session_id": _made().session}
    return body
