"""Simulation: the production code under seeded time, order, faults and delays."""
