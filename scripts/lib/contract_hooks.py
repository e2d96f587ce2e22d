"""Hooks of scripts/contract: what is made up becomes what is there, so that requests reach the handlers."""

import json
import os
import urllib.error
import urllib.request

import schemathesis

URL = os.environ["WINDLASS_CONTRACT_URL"]
ADMIN = os.environ["WINDLASS_CONTRACT_KEY"]
# Ids are learnt from answers; with its own key revoked, the rest of the run would show nothing.
OWN_KEY = ADMIN.split("_")[1]
# Requests between two looks at what there is.
LOOK_EVERY = 16

known = {}
calls = 0


def ask(method, path, body=None):
    """A request as the admin; None if it is refused."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {ADMIN}"}
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return {}


def look():
    """Finds out what there is; made-up requests cancel, delete and revoke whatever they get hold of."""
    ask("POST", "/jobs", {"type": "contract", "queue": "contract"})
    ask("POST", "/workers", {})
    ask("POST", "/keys", {"name": "spare", "role": "viewer"})
    ask("PUT", "/schedules/contract", {"cron": "0 0 * * *", "job": {"type": "contract"}})
    ask("PUT", "/alerts/contract", {"condition": "dead_letters", "url": "https://example.com/alert"})
    listed = ask("GET", "/jobs?limit=20").get("jobs", []) + ask("GET", "/jobs?limit=20&state=cancelled").get("jobs", [])
    known["jobs"] = [job["id"] for job in listed]
    known["workers"] = [worker["id"] for worker in ask("GET", "/workers").get("workers", [])][-8:]
    known["keys"] = [key["id"] for key in ask("GET", "/keys").get("keys", []) if key["name"] == "spare"][-8:]
    known["schedule"] = ["contract"]
    known["alert"] = ["contract"]
    known["queue"] = ["contract"]


def chosen(kind, seed):
    """Something that is there; every fourth time nothing, to meet what is not."""
    found = known.get(kind)
    return found[seed % len(found)] if found and seed % 4 != 3 else None


def at_once(fields):
    """Other tests make long waits; here they would only take time."""
    if isinstance(fields, dict) and isinstance(fields.get("wait"), str):
        fields["wait"] = "0s"


@schemathesis.hook
def before_call(_context, case, _kwargs):
    """The last word on a request."""
    global calls
    if calls % LOOK_EVERY == 0:
        look()
    calls += 1
    for name in list(case.path_parameters or {}):
        kind = case.operation.path.removeprefix("/api/v1/").split("/")[0] if name == "id" else name
        there = chosen(kind, calls)
        if there is not None:
            case.path_parameters[name] = there
        elif case.path_parameters[name] == OWN_KEY:
            case.path_parameters[name] = "0" * len(OWN_KEY)
    # A made-up version never fits; with one on every call nothing would get past that.
    if case.headers and calls % 4 != 0:
        for name in [name for name in case.headers if name.lower() == "if-match"]:
            del case.headers[name]
    at_once(case.query)
    at_once(case.body)
    if isinstance(case.body, dict) and isinstance(case.body.get("worker_id"), str):
        case.body["worker_id"] = chosen("workers", calls) or case.body["worker_id"]
