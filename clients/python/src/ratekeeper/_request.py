"""Requests and answers of the HTTP API, without I/O: what both clients share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast
from urllib.parse import SplitResult, urlsplit

from ._decision import Decision, from_answer
from ._errors import NoAnswer, Problem

OnFailure = Literal["raise", "allow", "deny"]
"""What a call without an answer does: raise ``NoAnswer``, or return a decision that allows or refuses."""

LARGEST_ANSWER = 1 << 20
"""Longer answers are refused; those of the server have a few kilobytes."""

USER_AGENT = "ratekeeper-python/0.1.0"


def address(server: str) -> SplitResult:
    """The address of a server, checked."""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{server!r} is not the address of a server; use one such as http://127.0.0.1:8080")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("the address of a server has no query, fragment or user; give the token as token=")
    return parts


def header_fields(token: str | None) -> dict[str, str]:
    fields = {"content-type": "application/json", "accept": "application/json", "user-agent": USER_AGENT}
    if token is not None:
        fields["authorization"] = f"Bearer {token}"
    return fields


def on_failure_checked(on_failure: str) -> OnFailure:
    if on_failure in ("raise", "allow", "deny"):
        return cast(OnFailure, on_failure)
    raise ValueError(f"on_failure is {on_failure!r}; use 'raise', 'allow' or 'deny'")


def body(domain: str, key: str | Mapping[str, str], **fields: object) -> bytes:
    """The JSON of a request. A key is a string, or a mapping of descriptor entries."""
    request: dict[str, object] = {"domain": domain}
    if isinstance(key, str):
        request["key"] = key
    else:
        request["descriptor"] = dict(key)
    request.update((name, value) for name, value in fields.items() if value is not None)
    return json.dumps(request, separators=(",", ":")).encode()


def decision(status: int, headers: Mapping[str, str], content: bytes) -> Decision:
    """The decision in an answer, or the error that it is."""
    if status >= 500:
        raise NoAnswer(_text(status, content))
    if status != 200:
        raise _problem(status, content)
    try:
        return from_answer(json.loads(content), headers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoAnswer(f"the answer is not a decision ({error!r}); is this the HTTP port of a ratekeeper server?") from error


def without_answer(error: NoAnswer, on_failure: OnFailure) -> Decision:
    """The decision of the caller's choice while the server does not answer."""
    if on_failure == "allow":
        return Decision(verdict="allow", source="client_open")
    if on_failure == "deny":
        return Decision(verdict="deny", source="client_closed", retry_after_us=1_000_000, headers={"retry-after": "1"})
    raise error


def _problem(status: int, content: bytes) -> Problem:
    try:
        fields: Any = json.loads(content)
        return Problem(status, str(fields["title"]), str(fields.get("detail", "")), str(fields.get("type", "about:blank")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Problem(status, "no problem details", content[:200].decode(errors="replace"))


def _text(status: int, content: bytes) -> str:
    problem = _problem(status, content)
    return f"the server cannot decide: {problem}"
