"""Pages: what the pages of every application load, and how pages are served."""

from onceward.pages.serving import REVALIDATE, add_pages

__all__ = ["REVALIDATE", "add_pages"]
