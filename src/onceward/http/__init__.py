"""HTTP: the request guard, error responses, long polling and static pages for all servers."""
