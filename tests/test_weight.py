"""Weight: what counts as a line of code, and what as a comment."""

import pytest

from docs.make.weight import Weight, by_package, by_tree, tracked, weigh_python, weigh_text

MODULE = '''"""A docstring
of two lines."""

# A comment.
VALUE = """text
that is no docstring"""  # and a remark


def call() -> None:
    """Do nothing."""
    print(
        VALUE,  # the first
    )
'''


def test_a_module_is_weighed_by_its_tokens() -> None:
    """Docstrings and comments are no code, and a remark beside code is no line of comment."""
    assert weigh_python(MODULE) == Weight(files=1, code=6, comments=4, lines=13)


@pytest.mark.parametrize(
    ("suffix", "text", "code", "comments"),
    [
        (".ts", 'const a = "//"; // why\n/* two\nlines */\nconst b = `/*\n*/`;\n', 3, 2),
        (".css", "/* why */\na { color: red; }\n", 1, 1),
        (".html", "<!-- why -->\n\n<p>//</p>\n", 1, 1),
        (".sql", "-- why\nselect '--'\n", 1, 1),
    ],
)
def test_another_language_is_weighed_without_its_comments(
    suffix: str, text: str, code: int, comments: int
) -> None:
    """A string that looks like a comment is code."""
    found = weigh_text(text, suffix)
    assert (found.code, found.comments) == (code, comments)


def test_every_file_of_a_tree_is_in_one_package() -> None:
    """The packages together weigh what the tree does."""
    trees = by_tree(name for name in tracked() if name.startswith("docs/make/"))
    packages = by_package(trees["docs"], 2)
    assert [name for name, _ in packages] == ["docs/make"]
    assert packages[0][1].files == len(trees["docs"]) > 1
