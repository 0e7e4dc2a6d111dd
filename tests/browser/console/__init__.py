"""The console in a browser: every screen over a real server, with a story in its store."""
