"""Console: the web application that people and programs meet when they run `onceward up`."""

from onceward.console.app import build_app

__all__ = ["build_app"]
