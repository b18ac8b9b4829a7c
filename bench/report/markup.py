"""HTML and SVG, element by element. What is not `Html` is text and gets escaped, so that nothing in a file becomes
markup."""

import html
import re


class Html(str):
    """Markup, as it stands."""


def printable(text: object) -> str:
    """Text on one line, in which nothing is invisible or obeyed by a terminal."""
    one_line = re.sub(r"\s*\n\s*", " ", str(text))
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in one_line)


def joined(*parts: object) -> Html:
    return Html(
        "".join(part if isinstance(part, Html) or part == "\n" else html.escape(printable(part)) for part in parts)
    )


def element(tag: str, *inside: object, **attributes: object) -> Html:
    """`class_` is an attribute whose name Python keeps for itself, and `data_of` is written data-of; None leaves one
    out."""
    given = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    named = "".join(f' {name}="{joined(value)}"' for name, value in given)
    return Html(f"<{tag}{named}>{joined(*inside)}</{tag}>")


def breakable(name: str) -> Html:
    """A name that may be broken behind its underlines."""
    return Html(joined(name).replace("_", "_<wbr>"))


def coded(text: str) -> Html:
    """What stands between grave accents is code."""
    found = re.fullmatch(r"([^`]*)`(.*)`([^`]*)", text, re.S)
    return joined(found[1], element("code", found[2]), found[3]) if found else joined(text)


def folded(summary: str, *inside: object) -> Html:
    return Html(element("details", element("summary", summary), "\n", *inside) + "\n")


def figure(title: object, *inside: object) -> Html:
    return Html(element("figure", element("figcaption", title), "\n", *inside) + "\n")
