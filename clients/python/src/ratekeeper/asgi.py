"""ASGI middleware: limits an application of FastAPI, Starlette or any other ASGI framework.

    app = FastAPI()
    app.add_middleware(RateLimit, client=AsyncClient(on_failure="allow"), domain="api", key=header("x-api-key"))
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from ._decision import Decision
from .aio import AsyncClient

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Key = str | Mapping[str, str] | None
"""A key, descriptor entries, or None for a request that is not limited."""

REFUSED = b"https://iana.org/assignments/http-problem-types#quota-exceeded"


class RateLimit:
    """Asks a server before each request, and answers refused ones with 429 as problem+json with ``Retry-After``.

    ``key`` returns the key or the descriptor entries of a request, or None to let it pass without asking; ``cost`` its
    permits. Both may be coroutines. Header fields about the limit are added to every response. An allowed request that has
    to wait (a shaped rule, or ``max_wait``) is delayed; the lease of a concurrency rule is released after the response.

    While the server does not answer, the client's ``on_failure`` applies: ``"allow"`` lets requests pass, ``"deny"``
    answers 503, ``"raise"`` lets the framework answer 500.
    """

    def __init__(
        self,
        app: App,
        *,
        client: AsyncClient,
        domain: str,
        key: Callable[[Scope], Key | Awaitable[Key]],
        cost: Callable[[Scope], int | Awaitable[int]] | None = None,
        max_wait: float = 0,
    ) -> None:
        self.app = app
        self._client = client
        self._domain = domain
        self._key = key
        self._cost = cost
        self._max_wait = max_wait

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = await _resolved(self._key(scope)) if scope["type"] == "http" else None
        if key is None:
            await self.app(scope, receive, send)
            return
        cost = None if self._cost is None else await _resolved(self._cost(scope))
        decision = await self._client.acquire(self._domain, key, cost=cost, max_wait=self._max_wait)
        if not decision.allowed:
            await _refuse(decision, send)
            return
        scope.setdefault("state", {})["ratekeeper"] = decision

        async def with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_fields(decision)]}
            await send(message)

        try:
            await self.app(scope, receive, with_fields)
        finally:
            if decision.lease is not None:
                await asyncio.shield(
                    self._client.release(self._domain, key, decision.lease, on_failure="allow"),
                )


def header(name: str, *, entry: str | None = None) -> Callable[[Scope], Key]:
    """Limits by the value of a header field: as the key, or as the descriptor entry ``entry``. A request without the field
    is not limited. Count by a verified identity where it matters: a client can send any value."""
    wanted = name.lower().encode("latin-1")

    def of(scope: Scope) -> Key:
        for field, value in scope["headers"]:
            if field == wanted:
                text = value.decode("latin-1")
                return {entry: text} if entry is not None else text
        return None

    return of


def address(*, entry: str | None = None) -> Callable[[Scope], Key]:
    """Limits by the address of the peer, as the ASGI server reports it; behind a proxy, configure that server to trust it."""

    def of(scope: Scope) -> Key:
        peer = scope.get("client")
        host = peer[0] if peer else "unknown"
        return {entry: host} if entry is not None else host

    return of


async def _resolved(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _fields(decision: Decision) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in decision.headers.items()]


async def _refuse(decision: Decision, send: Send) -> None:
    status, problem = 429, {"type": REFUSED.decode(), "title": "Quota exceeded"}
    if decision.source in ("closed", "client_closed"):
        status, problem = 503, {"type": "about:blank", "title": "Service Unavailable"}
    body = json.dumps({**problem, "status": status}).encode()
    fields = [*_fields(decision), (b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
