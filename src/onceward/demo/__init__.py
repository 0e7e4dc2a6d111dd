"""Demo: the five systems in a story with real processes that die, once or as long as one looks."""

from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_server import living

__all__ = ["DemoWorld", "living"]
