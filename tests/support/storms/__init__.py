"""Storms: programs whose processes are killed at random moments, one module per package."""
