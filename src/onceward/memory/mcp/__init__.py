"""MCP: the memory as an MCP server: tools, their results, and the transport."""
