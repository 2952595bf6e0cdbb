"""The middleware in applications of FastAPI and Starlette, on a real server."""

import pytest
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ratekeeper.aio import AsyncClient
from ratekeeper.asgi import RateLimit, address, header


def fastapi(**options) -> FastAPI:
    app = FastAPI()
    app.add_middleware(RateLimit, domain="api", **options)

    @app.get("/items")
    async def items(request: Request) -> dict[str, int | None]:
        return {"remaining": request.state.ratekeeper.remaining if hasattr(request.state, "ratekeeper") else None}

    return app


def test_the_fourth_request_of_a_day_gets_429(server: str, key: str) -> None:
    app = fastapi(client=AsyncClient(server, timeout=20), key=header("X-User"))
    with TestClient(app) as web:
        for left in (2, 1, 0):
            response = web.get("/items", headers={"x-user": key})
            assert (response.status_code, response.json()) == (200, {"remaining": left})
            assert response.headers["ratelimit"].startswith(f'"day";r={left};t=')
        response = web.get("/items", headers={"x-user": key})
        assert response.status_code == 429
        assert 7 * 3600 < int(response.headers["retry-after"]) <= 8 * 3600
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["title"] == "Quota exceeded"
        # Without the field, requests are not limited.
        assert web.get("/items").json() == {"remaining": None}


def test_a_cost_and_a_key_may_be_coroutines(server: str, key: str) -> None:
    async def of(scope) -> str:
        return key

    app = fastapi(client=AsyncClient(server, timeout=20), key=of, cost=lambda scope: 3)
    with TestClient(app) as web:
        assert [web.get("/items").status_code for _ in range(2)] == [200, 429]


def test_a_lease_is_released_after_the_response_also_after_an_error(server: str, key: str) -> None:
    async def reports(request) -> PlainTextResponse:
        if "fail" in request.query_params:
            raise RuntimeError("a report failed")
        return PlainTextResponse("report")

    app = Starlette(routes=[Route("/reports", reports)])
    app.add_middleware(
        RateLimit, client=AsyncClient(server, timeout=20), domain="api", key=lambda _: {"path": "/reports", "user": key}
    )
    with TestClient(app, raise_server_exceptions=False) as web:
        statuses = [web.get("/reports", params=params).status_code for params in ({}, {"fail": 1}, {})]
    assert statuses == [200, 500, 200]


@pytest.mark.parametrize(("on_failure", "status"), [("allow", 200), ("deny", 503), ("raise", 500)])
def test_without_an_answer_the_choice_of_the_client_applies(on_failure, status) -> None:
    app = fastapi(client=AsyncClient("http://127.0.0.1:1", on_failure=on_failure), key=address(entry="ip"))
    with TestClient(app, raise_server_exceptions=False) as web:
        response = web.get("/items")
    assert response.status_code == status
    if status == 503:
        assert response.headers["retry-after"] == "1"
