# Gives schemathesis what it can't guess: a key, a log-in on the account page, the ids of a session, a message, a file and
# a key that exist, made anew when a test has deleted them; and the name of a model.

import itertools
import os
import threading

import requests
import schemathesis

_URL = os.environ["TOLLGATE_URL"]
_AUTHORIZATION = {"Authorization": f"Bearer {os.environ['TOLLGATE_KEY']}"}
_ADMIN_URL = os.environ["TOLLGATE_ADMIN_URL"]
_ADMIN = {"Authorization": f"Bearer {os.environ['TOLLGATE_ADMIN_TOKEN']}"}
_PAGE = "/account/api/"
_COOKIE = "tollgate"
# Every so many requests keep what schemathesis made. The numbers have no common factor, so that each mixture comes.
_EVERY = {"path": 3, "headers": 4, "body": 5, "query": 7}
# An account may make 600 requests a minute on its page.
_USES_OF_AN_ACCOUNT = 100


class _Ids(threading.local):
    """Ids of one thread's own; every few uses they are checked, and made again if they are gone."""

    session = ""
    message = ""
    file = ""


_ids = _Ids()
_counts = {what: itertools.count(1) for what in _EVERY}
_names = itertools.count()


def _is_left(what):
    return next(_counts[what]) % _EVERY[what] == 0


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


class _Page(threading.local):
    """One thread's log-in, on an account that is used for a while."""

    account = ""
    cookie = ""
    uses = 0


_page = _Page()


def _operate(path, body):
    return requests.post(_ADMIN_URL + path, headers=_ADMIN, json=body, timeout=20).json()


def _link():
    if not _page.account or _page.uses >= _USES_OF_AN_ACCOUNT:
        _page.account = _operate("/admin/accounts", {"name": f"page {next(_names)}"})["id"]
        _page.uses = 0
    _page.uses += 1
    return _operate(f"/admin/accounts/{_page.account}/portal", {})["url"].split("#link=")[1]


def _ask_page(method, path, cookie, **more):
    headers = {"Origin": _URL, "Content-Type": "application/json"}
    cookies = {_COOKIE: cookie} if cookie else {}
    return requests.request(method, _URL + _PAGE + path, headers=headers, cookies=cookies, timeout=20, **more)


def _logged_in():
    _page.uses += 1
    is_used = _page.uses >= _USES_OF_AN_ACCOUNT
    if is_used or not _page.cookie or _ask_page("GET", "me", _page.cookie).status_code != 200:
        answer = _ask_page("POST", "login", None, json={"link": _link()})
        _page.cookie = answer.cookies[_COOKIE]
    return _page.cookie


@schemathesis.auth(refresh_interval=None).apply_to(path_regex=f"^{_PAGE}")
class _ByCookie:
    def get(self, case, context):
        return _logged_in()

    def set(self, case, data, context):
        case.cookies[_COOKIE] = data


@schemathesis.auth(refresh_interval=None).skip_for(path_regex=f"^{_PAGE}")
class _ByKey:
    def get(self, case, context):
        return _AUTHORIZATION["Authorization"]

    def set(self, case, data, context):
        case.headers["Authorization"] = data


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Most requests get ids that exist; the others what schemathesis made."""
    if not path_parameters or _is_left("path"):
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
    if _is_for(path, _PAGE):
        return {**path_parameters, "id": _ask_page("POST", "keys", _logged_in(), json={}).json()["id"]}
    if _is_for(path, "/account/packages/"):
        return {**path_parameters, "file": "uplot.js"}
    if _is_for(path, "/account/"):
        return {**path_parameters, "file": "style.css"}
    if _is_for(path, "/docs/"):
        return {**path_parameters, "file": "page.js"}
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    """A place in the stream of a message that exists."""
    if query and "starting_after" in query and not _is_left("query"):
        return {**query, "starting_after": "0"}
    return query


@schemathesis.hook
def map_headers(context, headers):
    if _is_left("headers"):
        return headers
    if headers and "Last-Event-ID" in headers:
        headers = {**headers, "Last-Event-ID": f"{_made().message}:0"}
    if context.operation.path.startswith(_PAGE):
        headers = {**(headers or {}), "Origin": _URL}
    return headers


@schemathesis.hook
def before_call(context, case, kwargs):
    """What a browser sends without a body, which a document can't say."""
    if case.operation.path.startswith(_PAGE) and case.method == "DELETE":
        case.headers["Content-Type"] = "application/json"


@schemathesis.hook
def map_body(context, body):
    """A model that exists, in most bodies that have a model; a session for a file."""
    if not isinstance(body, dict) or _is_left("body"):
        return body
    if isinstance(body.get("model"), str):
        body = {**body, "model": "m"}
    if context.operation.path == f"{_PAGE}login":
        body = {**body, "link": _link()}
    if context.operation.path == "/api/files/upload":
        body = {**body, "session_id": _made().session}
    return body
