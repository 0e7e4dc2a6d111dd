"""Browser: actions on pages, checks of pages, and programs that use a browser."""
