"""Demo: the five systems in a story with real processes that die, once or as long as one looks."""

from onceward.demo.theatre import living
from onceward.demo.world import DemoWorld

__all__ = ["DemoWorld", "living"]
