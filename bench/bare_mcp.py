"""Serve an MCP tool that answers at once: the cost of client, protocol and pipes alone."""

from mcp.server import MCPServer

ANSWER = '{"entities":[],"relations":[]}'


def open_nodes(names: list[str]) -> str:
    """Know nothing of them."""
    return ANSWER if names else ""


if __name__ == "__main__":
    server = MCPServer("bare")
    server.add_tool(open_nodes)
    server.run()
