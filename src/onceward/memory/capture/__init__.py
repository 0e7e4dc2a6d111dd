"""Capture: what a command did and what it says about the fixes that are known."""
