"""The synchronous client against a real server."""

import concurrent.futures
import socket
import threading
from collections.abc import Iterator

import pytest

from ratekeeper import Client, NoAnswer, Problem


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server, timeout=20) as client:
        yield client


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def unused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_three_of_a_day_pass_and_the_fourth_is_a_decision(client: Client, key: str) -> None:
    assert [client.check("api", key).remaining for _ in range(3)] == [2, 1, 0]
    decision = client.check("api", key)
    assert (decision.verdict, decision.allowed, decision.decided_by, decision.policy) == ("deny", False, "day", "per-key")
    # A permit returns every eight hours.
    assert decision.retry_after_us is not None and 7 * 3600 * 10**6 < decision.retry_after_us <= 8 * 3600 * 10**6
    assert decision.retry_after == decision.retry_after_us / 1e6
    assert int(decision.headers["retry-after"]) == -(-decision.retry_after_us // 10**6)
    assert decision.headers["ratelimit-policy"] == '"day";q=3;w=86400'
    assert [(rule.name, rule.verdict, rule.limit) for rule in decision.rules] == [("day", "deny", 3)]


def test_a_cost_above_the_limit_never_passes(client: Client, key: str) -> None:
    decision = client.check("api", key, cost=4)
    assert (decision.verdict, decision.retry_after, decision.retry_after_us) == ("never", None, None)


def test_every_verb(client: Client, key: str) -> None:
    assert client.check("api", key, cost=2).remaining == 1
    assert client.peek("api", key).remaining == 1
    assert client.settle("api", key, reserved=2, actual=1).remaining == 2
    assert client.refund("api", key, cost=1).remaining == 3
    assert client.penalize("api", key, cost=3).remaining == 0
    assert client.reset("api", key).remaining == 3
    assert client.ask("check", "api", key, cost=3).remaining == 0


def test_acquire_sleeps_until_the_reserved_permit_is_free(client: Client, key: str) -> None:
    entries = {"user": key}
    waits = [client.acquire("api", entries, max_wait=60).wait_us for _ in range(3)]
    assert client.check("api", entries, cost=2).verdict == "never"
    assert all(0 <= wait <= 200_000 for wait in waits)
    # Nothing is taken if the wait would be longer.
    for _ in range(3):
        client.penalize("api", entries, cost=1)
    assert client.acquire("api", entries, max_wait=0.001).verdict == "deny"


def test_a_lease_is_released_at_the_end_of_the_block(client: Client, key: str) -> None:
    entries = {"path": "/reports", "user": key}
    with client.hold("api", entries) as first:
        assert first.allowed and first.lease is not None
        assert client.heartbeat("api", entries, first.lease).held is True
        with client.hold("api", entries) as second:
            assert not second.allowed and second.lease is None
    assert client.heartbeat("api", entries, first.lease).held is False
    with client.hold("api", entries) as third:
        assert third.allowed


def test_a_request_with_an_id_is_charged_once(client: Client, key: str) -> None:
    first, second = (client.check("api", key, cost=2, request_id="a") for _ in range(2))
    assert (first.remaining, first.source, second.remaining, second.source) == (1, "store", 1, "repeated")
    assert client.commit("api", key, request_id="a", actual=1).remaining == 2
    assert client.reserve("api", key, request_id="b", cost=2, lifetime=600).remaining == 0
    assert client.cancel("api", key, request_id="b").remaining == 2
    with pytest.raises(Problem) as caught:
        client.cancel("api", key, request_id="c")
    assert caught.value.status == 404


def test_a_request_with_an_id_is_sent_once_more_if_its_answer_is_lost(server: str, key: str) -> None:
    host, port = server.removeprefix("http://").split(":")
    lost = []

    def relay(listener: socket.socket) -> None:
        for number in range(2):
            caller = listener.accept()[0]
            with caller, socket.create_connection((host, int(port))) as real:
                request = b""
                while not request.endswith(b"}"):  # the end of the body
                    request += caller.recv(65536)
                real.sendall(request)
                answer = real.recv(65536)
                if number == 1:
                    caller.sendall(answer)
                else:
                    lost.append(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=relay, args=(listener,))
        thread.start()
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=20)
        decision = client.check("api", key, request_id="lost")
        thread.join()
    assert (decision.remaining, decision.source, len(lost)) == (2, "repeated", 1)


def test_a_blocked_key_is_refused(client: Client, key: str) -> None:
    assert client.block("api", key, seconds=3600).decided_by == "block"
    assert client.check("api", key).decided_by == "block"
    client.block("api", key, seconds=0)
    assert client.check("api", key).allowed


def test_an_invalid_request_is_a_typed_problem(client: Client, key: str) -> None:
    with pytest.raises(Problem) as caught:
        client.ask("check", "api", key, color="red")
    assert caught.value.status == 400 and "unknown field `color`" in caught.value.detail
    # Also if failures allow: a mistake is not an outage.
    with pytest.raises(Problem):
        client.ask("nonsense", "api", key, on_failure="allow")


def test_connections_are_reused_and_bounded(client: Client, key: str) -> None:
    client.check("api", key)
    (first,) = client._idle
    client.check("api", key)
    assert client._idle == [first]
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        decisions = list(pool.map(lambda _: client.check("api", "threads", cost=1), range(200)))
    assert sum(decision.allowed for decision in decisions) == 3
    assert len(client._idle) <= 16


def test_a_connection_that_the_server_closed_is_replaced(client: Client, key: str) -> None:
    client.check("api", key)
    (connection,) = client._idle
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RD)
    assert client.check("api", key).allowed


def test_the_caller_chooses_what_happens_without_an_answer(silent: str) -> None:
    for server, timeout in ((silent, 0.05), (unused(), 20.0)):
        client = Client(server, timeout=timeout)
        with pytest.raises(NoAnswer):
            client.check("api", "k")
        allowed, denied = (client.check("api", "k", on_failure=choice) for choice in ("allow", "deny"))
        assert (allowed.verdict, allowed.source, allowed.limit) == ("allow", "client_open", None)
        assert (denied.verdict, denied.source, denied.retry_after) == ("deny", "client_closed", 1.0)
        with Client(server, timeout=timeout, on_failure="allow").hold("api", "k") as decision:
            assert decision.allowed


def test_another_server_is_not_taken_for_one(server: str) -> None:
    with pytest.raises(Problem) as caught:
        Client(server + "/prefix", timeout=20).check("api", "k")
    assert caught.value.status == 404


@pytest.mark.parametrize("server", ["127.0.0.1:8080", "ftp://localhost", "http://", "http://u:p@localhost", "http://h/?q"])
def test_an_invalid_address_is_found_at_once(server: str) -> None:
    with pytest.raises(ValueError):
        Client(server)


def test_invalid_options_are_found_at_once(server: str) -> None:
    for options in ({"timeout": 0}, {"on_failure": "maybe"}):
        with pytest.raises(ValueError):
            Client(server, **options)  # type: ignore[arg-type]
