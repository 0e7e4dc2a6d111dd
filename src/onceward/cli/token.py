"""`onceward token`: show or replace the token of this user's servers."""

from __future__ import annotations

from onceward.cli.change_plan import Yes, print_change
from onceward.cli.output import JsonFlag, group, print_json
from onceward.errors import FileMissing

app = group("Show or replace the token of this user's servers.")


@app.command()
def show(json_output: JsonFlag = False) -> None:
    """Print the token of this user's servers; exit 2 if there is none yet.

    Clients need it for every change over HTTP, and for each request that does not come from your
    own processes: from other users, scrapers or proxies. Pages in your browser get one of their
    own; a memory server with `$ONCEWARD_MEMORY_TOKEN` takes only that one. The first server creates
    it, in `$ONCEWARD_HOME/token`.

    Example: `onceward token show --json`
    """
    from onceward.http.token_file import read_token, token_path

    token = read_token()
    if token is None:
        message = f"there is no token at {token_path()} yet"
        fix = "start a server, or create a token: onceward token rotate --yes"
        raise FileMissing(message, fix=fix, path=str(token_path()))
    _print(token, json_output=json_output)


@app.command()
def rotate(yes: Yes = False, json_output: JsonFlag = False) -> None:
    """Replace the token of this user's servers and print the new one; create it if there is none.

    A running server accepts only the old token until it restarts, and after that only the new one.
    A memory server with `$ONCEWARD_MEMORY_TOKEN` accepts only that one.

    Example: `onceward token rotate --yes`
    """
    from onceward.http.token_file import rotate_token, token_path

    path = str(token_path())
    if yes:
        token = rotate_token()
        print_change([token], applied=True, json_output=json_output, token=token, path=path)
        return
    lines = [
        f"would write a new token to {path}, and replace a token that is there",
        "running servers accept only the old token until they restart, then only the new one",
    ]
    print_change(lines, applied=False, json_output=json_output, path=path)


def _print(token: str, *, json_output: bool) -> None:
    from onceward.http.token_file import token_path

    if json_output:
        print_json({"token": token, "path": str(token_path())})
    else:
        print(token)
