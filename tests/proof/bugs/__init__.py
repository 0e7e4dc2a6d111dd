"""Bug bank: mistakes put back into the source on purpose, each with the test that must notice."""
