"""The synchronous client: ``http.client`` with a pool of kept-alive connections."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from . import _request
from ._decision import Decision
from ._errors import NoAnswer
from ._request import OnFailure


class Client:
    """Asks a ratekeeper server. Threads can share it; connections are reused.

    >>> with Client("http://127.0.0.1:8080") as client:         # doctest: +SKIP
    ...     decision = client.check("api", {"user": "42"})
    ...     if not decision.allowed:
    ...         print("retry after", decision.retry_after, "seconds")

    ``timeout`` bounds the connection and then each wait for the answer, in seconds. ``on_failure`` is what happens without
    an answer: ``"raise"`` raises ``NoAnswer``, ``"allow"`` and ``"deny"`` return such a decision. Every call can choose
    another one.
    """

    def __init__(
        self,
        server: str = "http://127.0.0.1:8080",
        *,
        timeout: float = 1.0,
        on_failure: OnFailure = "raise",
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        pool_size: int = 16,
    ) -> None:
        self._address = _request.address(server)
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; use a number of seconds above 0")
        self._timeout = timeout
        self._on_failure = _request.on_failure_checked(on_failure)
        self._fields = _request.header_fields(token)
        self._tls = tls or (ssl.create_default_context() if self._address.scheme == "https" else None)
        self._pool_size = pool_size
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def check(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        cost: int | None = None,
        max_wait: float = 0,
        request_id: str | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Decides one request. With ``max_wait``, permits that are free within that many seconds are reserved, and
        ``decision.wait`` is the time to wait before proceeding; ``acquire`` does that. With a ``request_id`` the request
        is charged once for each id; without an answer it is sent once more."""
        max_wait_ms = round(max_wait * 1000, 3) or None
        return self.ask(
            "check", domain, key, on_failure=on_failure, cost=cost, max_wait_ms=max_wait_ms, request_id=request_id
        )

    def acquire(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        max_wait: float,
        cost: int | None = None,
        request_id: str | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Takes permits and sleeps until they are free, at most ``max_wait`` seconds. It is one call, and callers are
        served in their order. If the wait would be longer, nothing is taken and the decision is a refusal, at once."""
        decision = self.check(
            domain, key, cost=cost, max_wait=max_wait, request_id=request_id, on_failure=on_failure
        )
        if decision.allowed and decision.wait_us:
            time.sleep(decision.wait)
        return decision

    @contextmanager
    def hold(
        self, domain: str, key: str | Mapping[str, str], *, max_wait: float = 0, on_failure: OnFailure | None = None
    ) -> Iterator[Decision]:
        """Holds a permit of a concurrency rule during a block. The block runs also if the decision is a refusal: look at
        ``decision.allowed``."""
        decision = self.acquire(domain, key, max_wait=max_wait, on_failure=on_failure)
        try:
            yield decision
        finally:
            if decision.allowed and decision.lease is not None:
                # Without an answer the lease expires by itself.
                self.release(domain, key, decision.lease, on_failure="allow")

    def peek(self, domain: str, key: str | Mapping[str, str], *, on_failure: OnFailure | None = None) -> Decision:
        """The state of a key; takes nothing."""
        return self.ask("peek", domain, key, on_failure=on_failure)

    def refund(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        cost: int | None = None,
        at_ms: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Returns unused permits. ``at_ms`` cancels a reservation: the decision's ``at_ms`` plus its wait."""
        return self.ask("refund", domain, key, on_failure=on_failure, cost=cost, at_ms=at_ms)

    def settle(
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
        return self.ask("settle", domain, key, on_failure=on_failure, reserved=reserved, actual=actual, at_ms=at_ms)

    def penalize(
        self, domain: str, key: str | Mapping[str, str], *, cost: int | None = None, on_failure: OnFailure | None = None
    ) -> Decision:
        """Charges permits unconditionally."""
        return self.ask("penalize", domain, key, on_failure=on_failure, cost=cost)

    def reserve(
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
        return self.ask(
            "reserve", domain, key, on_failure=on_failure, request_id=request_id, cost=cost, lifetime_ms=lifetime_ms
        )

    def commit(
        self,
        domain: str,
        key: str | Mapping[str, str],
        *,
        request_id: str,
        actual: int,
        on_failure: OnFailure | None = None,
    ) -> Decision:
        """Corrects what was charged under an id, once. ``Problem`` with status 404 if the id is not known."""
        return self.ask("commit", domain, key, on_failure=on_failure, request_id=request_id, actual=actual)

    def cancel(
        self, domain: str, key: str | Mapping[str, str], *, request_id: str, on_failure: OnFailure | None = None
    ) -> Decision:
        """Returns what was charged under an id, once. ``Problem`` with status 404 if the id is not known."""
        return self.ask("cancel", domain, key, on_failure=on_failure, request_id=request_id)

    def block(
        self, domain: str, key: str | Mapping[str, str], *, seconds: float, on_failure: OnFailure | None = None
    ) -> Decision:
        """Refuses every request of the key for this time; 0 lifts the block."""
        return self.ask("block", domain, key, on_failure=on_failure, for_ms=round(seconds * 1000))

    def release(
        self, domain: str, key: str | Mapping[str, str], lease: int, *, on_failure: OnFailure | None = None
    ) -> Decision:
        """Releases a lease; ``held`` is whether it was still valid."""
        return self.ask("release", domain, key, on_failure=on_failure, lease=lease)

    def heartbeat(
        self, domain: str, key: str | Mapping[str, str], lease: int, *, on_failure: OnFailure | None = None
    ) -> Decision:
        """Extends a lease; ``held`` is False if it had expired."""
        return self.ask("heartbeat", domain, key, on_failure=on_failure, lease=lease)

    def reset(self, domain: str, key: str | Mapping[str, str], *, on_failure: OnFailure | None = None) -> Decision:
        """Resets a key to its initial state."""
        return self.ask("reset", domain, key, on_failure=on_failure)

    def ask(
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
        path, body = f"/v1/{verb}", _request.body(domain, key, **fields)
        try:
            try:
                return _request.decision(*self._post(path, body))
            except NoAnswer:
                if fields.get("request_id") is None:
                    raise
                # A request with an id is charged once, however often it is sent.
                return _request.decision(*self._post(path, body))
        except NoAnswer as error:
            return _request.without_answer(error, on_failure)

    def close(self) -> None:
        """Closes idle connections. The client can still be used; it then connects again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _post(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = self._connection()
        try:
            connection.request("POST", self._address.path.rstrip("/") + path, body, self._fields)
            response = connection.getresponse()
            content = response.read(_request.LARGEST_ANSWER + 1)
            if len(content) > _request.LARGEST_ANSWER:
                raise NoAnswer(f"the answer is longer than {_request.LARGEST_ANSWER} bytes")
            headers = dict(response.getheaders())
            reusable = response.isclosed() and not response.will_close
        except BaseException as error:
            connection.close()
            if isinstance(error, (OSError, http.client.HTTPException)):
                raise NoAnswer(f"no answer from {self._address.netloc}: {error or type(error).__name__}") from error
            raise
        if reusable:
            self._keep(connection)
        else:
            connection.close()
        return response.status, headers, content

    def _connection(self) -> http.client.HTTPConnection:
        """An idle connection that the server has not closed, or a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            # Between two answers there is nothing to read but the end of the stream.
            if connection.sock is not None and not _readable(connection.sock):
                return connection
            connection.close()
        host, port = self._address.hostname or "", self._address.port
        if self._tls is not None and self._address.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < self._pool_size:
                self._idle.append(connection)
                return
        connection.close()


def _readable(sock: socket.socket) -> bool:
    poll = getattr(select, "poll", None)
    if poll is None:  # Windows
        return bool(select.select([sock], [], [], 0)[0])
    poller = poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(0))
