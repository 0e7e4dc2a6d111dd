"""Support: every helper of the tests; it imports no test tree."""
