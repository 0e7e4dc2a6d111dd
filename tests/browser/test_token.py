"""The token: who judges on another machine is asked for it, and after a restart for the new one."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from tests.browser.acting import ends
from tests.browser.watching import Watch
from tests.system.lab_processes import Bench, Running

EXTERNAL = ("lab", "--allow-external", "--json", "--no-open", "--allow-root", ".", "--port")


def token_of(server: Running) -> str:
    """Return what the server tells on its terminal only."""
    assert server.process.stderr is not None
    return server.process.stderr.readline().split()[-1]


def test_a_server_with_another_token(page: Page, tmp_path: Path, watch: Watch) -> None:
    """The page asks until it has the new token, and what was entered arrives under it."""
    watch.expect_death()
    watch.expect(401)
    bench = Bench(tmp_path)
    with bench.start(*EXTERNAL, "0") as server:
        url, token = server.url, token_of(server)
        answer = httpx.post(
            f"{url}/api/runs/import",
            json={"path": str(tmp_path / "runs" / "a")},
            headers={"x-cm-lab-token": token},
            trust_env=False,
        )
        page.goto(f"{url}/lab/review/{answer.json()['runId']}#token={token}")
        page.get_by_label("Notes").fill("from afar")
        expect(page).to_have_url(f"{url}/lab/review/{answer.json()['runId']}")
    rotated = bench.run("token", "rotate")
    assert rotated.returncode == 0, rotated.stderr
    with bench.start(*EXTERNAL, url.rpartition(":")[2]) as server:
        page.locator("#submit").click()
        dialog = page.get_by_role("dialog", name="This server asks for its token")
        dialog.get_by_label("Token").fill(token_of(server))
        dialog.get_by_role("button", name="Use this token").click()
        ends(page)
    assert [each["notes"] for each in bench.entries] == ["from afar"]
