"""`/metrics` of `serve`, `mcp` and `ui`: the figures of the store, for those who have the token."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer
from tests.faces.cli import fanfold
from tests.faces.desk import HEADERS, mcp_endpoint
from tests.faces.project import write_project
from tests.faces.serving import KEY, endpoint
from tests.faces.ui_server import served
from tests.flow.test_notify import Dear

pytest.importorskip("starlette")


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_they_are_the_figures_of_the_receipt_and_of_the_servers_books(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url)
    receipt = fanfold(folder, "run", "plan.yaml", "--quiet", "--json").receipt
    with served(folder) as ui:
        assert ui.ask("/metrics").status == 401
        assert ui.ask("/metrics", Authorization="Bearer wrong").status == 401
        assert ui.ask("/", Authorization=f"Bearer {ui.token}").status == 401, "only for these"
        answer = ui.ask("/metrics", Authorization=f"Bearer {ui.token}")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found, tokens = samples(answer.text), receipt["tokens"]
    assert found['fanfold_runs{status="complete"}'] == 1
    assert found['fanfold_calls_total{member="m"}'] == 6
    assert found['fanfold_cost_usd_total{member="m"}'] == pytest.approx(receipt["cost_usd"])
    assert receipt["cost_usd"] == pytest.approx(dollars(quick_server.books().bill))
    assert found['fanfold_tokens_total{member="m",type="input"}'] == tokens["input"]
    assert found['fanfold_tokens_total{member="m",type="output"}'] == tokens["output"]


def test_serve_and_mcp_have_them_for_their_token(tmp_path: Path) -> None:
    async def asked() -> None:
        async with endpoint(tmp_path, Dear()) as served, httpx.AsyncClient(verify=False) as client:
            url = served.url.removesuffix("/v1") + "/metrics"
            await served.said("hello", "dear")
            assert (await client.get(url)).status_code == 401
            answer = await client.get(url, headers={"Authorization": f"Bearer {KEY}"})
            assert samples(answer.text)['fanfold_calls_total{member="dear"}'] == 1
        async with mcp_endpoint() as address, httpx.AsyncClient(verify=False) as client:
            url = address.removesuffix("/mcp") + "/metrics"
            assert (await client.get(url)).status_code == 401
            assert (await client.get(url, headers=HEADERS)).text == "up 1\n"

    asyncio.run(asked())
