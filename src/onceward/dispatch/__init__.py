"""DISPATCH: chat messages to agents."""
