"""MCP: the memory as a server that models call: its tools, their answers, and its wire."""
