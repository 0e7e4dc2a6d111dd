"""HTTP: guard requests, format errors, poll for changes and serve pages, for all our servers."""
