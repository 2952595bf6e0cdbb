"""The asynchronous client against a real server."""

import asyncio

import pytest

from ratekeeper import NoAnswer, Problem
from ratekeeper.aio import AsyncClient


def run(coroutine):
    return asyncio.run(coroutine)


def test_decisions_of_concurrent_tasks(server: str, key: str) -> None:
    async def main() -> None:
        async with AsyncClient(server, timeout=20) as client:
            decisions = await asyncio.gather(*(client.check("api", key) for _ in range(50)))
            assert sorted(decision.remaining for decision in decisions if decision.allowed) == [0, 1, 2]
            assert (await client.peek("api", key)).remaining == 0
            assert (await client.refund("api", key, cost=1)).remaining == 1
            assert (await client.settle("api", key, reserved=2, actual=1)).remaining == 2
            assert (await client.penalize("api", key, cost=1)).remaining == 1
            assert (await client.reset("api", key)).remaining == 3

    run(main())


def test_a_cancelled_acquire_refunds_its_reservation(server: str, key: str) -> None:
    async def main() -> None:
        async with AsyncClient(server, timeout=20) as client:
            assert (await client.check("api", key, cost=3)).allowed
            task = asyncio.create_task(client.acquire("api", key, max_wait=9 * 3600))
            while (await client.peek("api", key)).reset_after_us < 25 * 3600 * 10**6:
                await asyncio.sleep(0.01)  # the reservation is not made yet
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.peek("api", key)).reset_after_us <= 24 * 3600 * 10**6

    run(main())


def test_leases(server: str, key: str) -> None:
    async def main() -> None:
        async with AsyncClient(server, timeout=20) as client:
            entries = {"path": "/reports", "user": key}
            async with client.hold("api", entries) as first:
                assert first.allowed and first.lease is not None
                assert (await client.heartbeat("api", entries, first.lease)).held is True
                async with client.hold("api", entries) as second:
                    assert not second.allowed
            async with client.hold("api", entries) as third:
                assert third.allowed

    run(main())


def test_errors_are_typed(server: str) -> None:
    async def main() -> None:
        async with AsyncClient(server, timeout=20, on_failure="allow") as client:
            with pytest.raises(Problem):
                await client.ask("check", "api", "k", color="red")

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        listener = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with listener, AsyncClient(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", timeout=0.05) as client:
            with pytest.raises(NoAnswer):
                await client.check("api", "k")
            assert (await client.check("api", "k", on_failure="allow")).source == "client_open"
            assert (await client.check("api", "k", on_failure="deny")).source == "client_closed"

    run(main())
