"""Demo: run all five systems with processes that are killed and frozen, and count the results."""

from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_server import endless_demo_running

__all__ = ["DemoWorld", "endless_demo_running"]
