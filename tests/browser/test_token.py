"""The token: who judges on another machine is asked for it, and after a restart for the new one."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Page, Request, expect

from tests.support.browser.lab_page_actions import expect_heading
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_processes import Bench, Running

ASKS = "This server asks for its token"
EXTERNAL = ("lab", "--allow-external", "--json", "--no-open", "--allow-root", ".", "--port")


def token_of(server: Running) -> str:
    """Return what the server tells on its terminal only."""
    assert server.process.stderr is not None
    return server.process.stderr.readline().split()[-1]


def test_a_server_with_another_token(page: Page, tmp_path: Path, watch: PageMonitor) -> None:
    """The page asks until it has the new token, and what was entered arrives under it."""
    watch.expect_restart()
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
    rotated = bench.run("token", "rotate", "--yes")
    assert rotated.returncode == 0, rotated.stderr
    with bench.start(*EXTERNAL, url.rpartition(":")[2]) as server:
        page.locator("#submit").click()
        dialog = page.get_by_role("dialog", name="This server asks for its token")
        dialog.get_by_label("Token").fill(token_of(server))
        dialog.get_by_role("button", name="Use this token").click()
        expect_heading(page)
    assert [each["notes"] for each in bench.entries] == ["from afar"]


def test_h65_a_page_never_keeps_the_token_of_the_file(
    page: Page, tmp_path: Path, watch: PageMonitor
) -> None:
    """It reads by its cookie; the token of its changes ends with the process."""
    watch.expect_restart()
    watch.expect(401)
    bench = Bench(tmp_path)
    sent: list[tuple[str, str, str]] = []

    def note(request: Request) -> None:
        found = request.headers.get("authorization")
        if found is not None:
            sent.append((request.method, request.url, found.removeprefix("Bearer ")))

    page.on("request", note)
    with bench.start(*EXTERNAL, "0") as server:
        url, token = server.url, token_of(server)
        headers = {"x-cm-lab-token": token}
        body = {"path": str(tmp_path / "runs" / "a")}
        import_url = f"{url}/api/runs/import"
        answer = httpx.post(import_url, json=body, headers=headers, trust_env=False)
        page.goto(f"{url}/lab/review/{answer.json()['runId']}#token={token}")
        page.get_by_label("Notes").fill("before the restart")
        expect(page.locator("#draft-state")).to_contain_text("Draft kept")
        kept = page.evaluate("sessionStorage.getItem('onceward.token')")
        assert kept.startswith("tok_")
        assert kept != token
    with bench.start(*EXTERNAL, url.rpartition(":")[2]) as server:
        page.locator("#submit").click()
        dialog = page.get_by_role("dialog", name="This server asks for its token")
        expect(dialog).to_contain_text("Each tab asks again after the server is restarted")
        dialog.get_by_label("Token").fill(token)
        dialog.get_by_role("button", name="Use this token").click()
        expect_heading(page)
    assert [each["notes"] for each in bench.entries] == ["before the restart"]
    assert {method for method, _, _ in sent} == {"POST"}
    assert {where for _, where, given in sent if given == token} == {f"{url}/api/console/login"}


def test_the_link_logs_in_the_tab_that_asks_for_the_token(
    page: Page, tmp_path: Path, watch: PageMonitor
) -> None:
    """It only changes the fragment of the address, which loads nothing by itself."""
    watch.expect(401)
    with Bench(tmp_path).start(*EXTERNAL, "0") as server:
        token = token_of(server)
        page.goto(f"{server.url}/lab")
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in to Onceward")
        page.goto(f"{server.url}/lab#token={token}")
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Log in to Onceward")
        expect(page).to_have_url(f"{server.url}/lab")


def test_the_link_answers_the_open_token_dialog_of_the_lab(
    page: Page, tmp_path: Path, watch: PageMonitor
) -> None:
    """Opening it changes only the fragment, from which the page takes the token at once."""
    watch.expect_restart()
    watch.expect(401)
    bench = Bench(tmp_path)
    with bench.start(*EXTERNAL, "0") as server:
        url, token = server.url, token_of(server)
        headers = {"x-cm-lab-token": token}
        body = {"path": str(tmp_path / "runs" / "a")}
        import_url = f"{url}/api/runs/import"
        answer = httpx.post(import_url, json=body, headers=headers, trust_env=False)
        address = f"{url}/lab/review/{answer.json()['runId']}"
        page.goto(f"{address}#token={token}")
        page.get_by_label("Notes").fill("by link")
    with bench.start(*EXTERNAL, url.rpartition(":")[2]):
        page.locator("#submit").click()
        expect(page.get_by_role("dialog", name=ASKS)).to_be_visible()
        page.goto(f"{address}#token={token}")
        expect_heading(page)
        expect(page.get_by_role("dialog", name=ASKS)).to_have_count(0)
        assert "token" not in page.url
    assert [each["notes"] for each in bench.entries] == ["by link"]


def test_the_link_answers_the_open_token_dialog_of_the_console(
    page: Page, tmp_path: Path, watch: PageMonitor
) -> None:
    """Opening it changes only the fragment, from which the page takes the token at once."""
    watch.expect_restart()
    watch.expect(401)
    bench = Bench(tmp_path)
    words = ("up", *EXTERNAL[1:])
    with bench.start(*words, "0") as server:
        url, token = server.url, token_of(server)
        page.goto(f"{url}/cursors#token={token}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Cursors")
        expect(page).to_have_url(f"{url}/cursors")
    assert bench.run("token", "rotate", "--yes").returncode == 0
    with bench.start(*words, url.rpartition(":")[2]) as server:
        expect(page.get_by_role("dialog", name=ASKS)).to_be_visible()
        page.goto(f"{url}/cursors#token={token_of(server)}")
        expect(page.get_by_role("dialog", name=ASKS)).to_have_count(0)
        expect(page).to_have_url(f"{url}/cursors")
        expect(page.get_by_role("heading", level=1)).to_have_text("Cursors")
