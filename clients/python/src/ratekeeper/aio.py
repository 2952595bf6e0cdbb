"""The asynchronous client, on httpx: ``pip install ratekeeper[asyncio]``."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType

import httpx

from . import _request
from ._decision import Decision
from ._errors import NoAnswer
from ._request import OnFailure


class AsyncClient:
    """Asks a ratekeeper server from asyncio. Tasks share it; connections are reused. The options are those of ``Client``.

    ``timeout`` bounds the whole call, in seconds; a call with a ``request_id`` may take it twice. Proxies named in the environment are not used.
    """

    def __init__(
        self,
        server: str = "http://127.0.0.1:8080",
        *,
        timeout: float = 1.0,
        on_failure: OnFailure = "raise",
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        pool_size: int = 100,
    ) -> None:
        address = _request.address(server)
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; use a number of seconds above 0")
        self._netloc = address.netloc
        self._base = address.geturl().rstrip("/")
        self._timeout = timeout
        self._on_failure = _request.on_failure_checked(on_failure)
        self._fields = _request.header_fields(token)
        self._http = httpx.AsyncClient(
            verify=tls if tls is not None else True,
            timeout=timeout,
            trust_env=False,
            limits=httpx.Limits(max_connections=pool_size, max_keepalive_connections=pool_size, keepalive_expiry=60),
        )

    async def check(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        cost: int | None = None,
        max_wait: float = 0,
        request_id: str | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Decides one request; see ``Client.check``."""
        max_wait_ms = round(max_wait * 1000, 3) or None
        return await self.ask(
            "check", domain, key, on_failure=on_failure, cost=cost, max_wait_ms=max_wait_ms, request_id=request_id
        )

    async def acquire(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        max_wait: float,
        cost: int | None = None,
        request_id: str | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Takes permits and sleeps until they are free, at most ``max_wait`` seconds; see ``Client.acquire``. A task that
        is cancelled while it sleeps refunds them."""
        decision = await self.check(
            domain, key, cost=cost, max_wait=max_wait, request_id=request_id, on_failure=on_failure
        )
        if decision.allowed and decision.wait_us:
            try:
                await asyncio.sleep(decision.wait)
            except asyncio.CancelledError:
                at_ms = decision.at_ms + decision.wait_us / 1000
                await asyncio.shield(
                    self.refund(domain, key, cost=decision.cost, at_ms=at_ms, on_failure="allow"),
                )
                raise
        return decision

    @asynccontextmanager
    async def hold(
        self, domain: str, key: str | Mapping[str, str], *, max_wait: float = 0, on_failure: OnFailure | None = None
    ) -> AsyncIterator[Decision]:
        """Holds a permit of a concurrency rule during a block; see ``Client.hold``."""
        decision = await self.acquire(domain, key, max_wait=max_wait, on_failure=on_failure)
        try:
            yield decision
        finally:
            if decision.allowed and decision.lease is not None:
                await asyncio.shield(self.release(domain, key, decision.lease, on_failure="allow"))

    async def peek(self, domain: str, key: str | Mapping[str, str], *, on_failure: OnFailure | None = None) -> Decision:
        """The state of a key; takes nothing."""
        return await self.ask("peek", domain, key, on_failure=on_failure)

    async def refund(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        cost: int | None = None,
        at_ms: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Returns unused permits. ``at_ms`` cancels a reservation: the decision's ``at_ms`` plus its wait."""
        return await self.ask("refund", domain, key, on_failure=on_failure, cost=cost, at_ms=at_ms)

    async def settle(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        reserved: int,
        actual: int,
        at_ms: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Corrects the cost of an earlier check."""
        return await self.ask(
            "settle", domain, key, on_failure=on_failure, reserved=reserved, actual=actual, at_ms=at_ms
        )

    async def penalize(
        self, domain: str, key: str | Mapping[str, str], *, cost: int | None = None, on_failure: OnFailure | None = None
    ) -> Decision:
        """Charges permits unconditionally."""
        return await self.ask("penalize", domain, key, on_failure=on_failure, cost=cost)

    async def reserve(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        request_id: str,
        cost: int,
        lifetime: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Charges an estimate under an id, for ``commit`` or ``cancel`` within ``lifetime`` seconds (60 by default)."""
        lifetime_ms = None if lifetime is None else round(lifetime * 1000)
        return await self.ask(
            "reserve", domain, key, on_failure=on_failure, request_id=request_id, cost=cost, lifetime_ms=lifetime_ms
        )

    async def commit(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        request_id: str,
        actual: int,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Corrects what was charged under an id, once. ``Problem`` with status 404 if the id is not known."""
        return await self.ask("commit", domain, key, on_failure=on_failure, request_id=request_id, actual=actual)

    async def cancel(
        self, domain: str, key: str | Mapping[str, str], *, request_id: str, on_failure: OnFailure | None = None
    ) -> Decision:
        """Returns what was charged under an id, once. ``Problem`` with status 404 if the id is not known."""
        return await self.ask("cancel", domain, key, on_failure=on_failure, request_id=request_id)

    async def block(
        self, domain: str, key: str | Mapping[str, str], *, seconds: float, on_failure: OnFailure | None = None
    ) -> Decision:
        """Refuses every request of the key for this time; 0 lifts the block."""
        return await self.ask("block", domain, key, on_failure=on_failure, for_ms=round(seconds * 1000))

    async def release(
        self, domain: str, key: str | Mapping[str, str], lease: int, *, on_failure: OnFailure | None = None
    ) -> Decision:
        """Releases a lease; ``held`` is whether it was still valid."""
        return await self.ask("release", domain, key, on_failure=on_failure, lease=lease)

    async def heartbeat(
        self, domain: str, key: str | Mapping[str, str], lease: int, *, on_failure: OnFailure | None = None
    ) -> Decision:
        """Extends a lease; ``held`` is False if it had expired."""
        return await self.ask("heartbeat", domain, key, on_failure=on_failure, lease=lease)

    async def reset(self, domain: str, key: str | Mapping[str, str], *, on_failure: OnFailure | None = None) -> Decision:
        """Resets a key to its initial state."""
        return await self.ask("reset", domain, key, on_failure=on_failure)

    async def ask(
        self,
        verb: str,
        domain: str,
        key: str | Mapping[str, str],
        *,
        on_failure: OnFailure | None = None,
        **fields: object,
    ) -> Decision:
        """Sends any verb of the HTTP API with further fields of its body, also ones that this version does not know."""
        on_failure = self._on_failure if on_failure is None else _request.on_failure_checked(on_failure)
        body = _request.body(domain, key, **fields)
        url = f"{self._base}/v1/{verb}"
        try:
            try:
                return _request.decision(*await self._post(url, body))
            except NoAnswer:
                if fields.get("request_id") is None:
                    raise
                # A request with an id is charged once, however often it is sent.
                return _request.decision(*await self._post(url, body))
        except NoAnswer as error:
            return _request.without_answer(error, on_failure)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _post(self, url: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        try:
            return await asyncio.wait_for(self._exchange(url, body), self._timeout)
        except (httpx.HTTPError, httpx.StreamError, TimeoutError, asyncio.TimeoutError) as error:
            raise NoAnswer(f"no answer from {self._netloc}: {str(error) or type(error).__name__}") from error

    async def _exchange(self, url: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        async with self._http.stream("POST", url, content=body, headers=self._fields) as response:
            content = b""
            async for part in response.aiter_bytes():
                content += part
                if len(content) > _request.LARGEST_ANSWER:
                    raise NoAnswer(f"the answer is longer than {_request.LARGEST_ANSWER} bytes")
            return response.status_code, dict(response.headers), content
