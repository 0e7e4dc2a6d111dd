"""Two attempts at the same command have one key; a second round of it has another.

python examples/command_keys.py
"""

from onceward.keys import CommandContent, explain, lint


def main() -> None:
    """Compare a command with its retry and with its second round."""
    first = {
        "message_id": "msg-001",
        "action": "review",
        "task_id": "T-0042",
        "snapshot_id": "snap-d0ab7e60b764",
        "inputs": {"goal": "review feature X"},
    }
    retry = {**first, "message_id": "msg-002", "deadline": "2026-02-06T13:00:00Z"}
    print(f"retry is the same work: {explain(first, retry).same}")

    second = {**first, "inputs": {"goal": "review feature X", "round": 2, "previous": "9f86d081"}}
    for difference in explain(first, second).differences:
        print(f"second round differs in {difference.path}")
    print(f"its key: {CommandContent.from_mapping(second).key[:11]}…")

    for finding in lint({"goal": "x", "request_id": "r-17"}):
        print(f"careful: {finding.path} {finding.reason}")


if __name__ == "__main__":
    main()
