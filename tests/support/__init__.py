"""Support: helpers that several test trees share; a tree imports only these and itself."""
