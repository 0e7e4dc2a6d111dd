"""Capture: run a command, detect its errors, and record them in the memory."""
