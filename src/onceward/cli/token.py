"""`onceward token`: the token that clients of this user's servers send."""

from __future__ import annotations

from onceward.cli.output import JsonFlag, group, print_json
from onceward.errors import FileMissing

app = group("Show or replace the token that clients of this user's servers send.")


@app.command()
def show(json_output: JsonFlag = False) -> None:
    """Print the token, for a client that is not the owner: another user, a scraper, a proxy.

    Example: `onceward token show --json`
    """
    from onceward.access.token_file import read_token, token_path

    token = read_token()
    if token is None:
        message = f"there is no token at {token_path()} yet"
        fix = "start a server, or make one: onceward token rotate"
        raise FileMissing(message, fix=fix, path=str(token_path()))
    _print(token, json_output=json_output)


@app.command()
def rotate(json_output: JsonFlag = False) -> None:
    """Replace the token and print the new one. Running servers take the old one until they restart.

    Example: `onceward token rotate --json`
    """
    from onceward.access.token_file import rotate_token

    _print(rotate_token(), json_output=json_output)


def _print(token: str, *, json_output: bool) -> None:
    from onceward.access.token_file import token_path

    if json_output:
        print_json({"token": token, "path": str(token_path())})
    else:
        print(token)
