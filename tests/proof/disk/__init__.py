"""Disk: what a failing, torn or suddenly powerless disk leaves of acknowledged work."""
