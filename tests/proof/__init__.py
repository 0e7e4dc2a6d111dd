"""Proof: campaigns that look for lost and duplicated work, and the report of what they saw."""
