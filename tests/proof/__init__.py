"""Proof: campaigns that look for lost and doubled work, and the report of what they saw."""
