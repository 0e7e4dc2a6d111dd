"""Pages: what the pages of every application load, and how pages are served."""

from onceward.pages.serving import POLICY, REVALIDATE, add_pages

__all__ = ["POLICY", "REVALIDATE", "add_pages"]
