#!/usr/bin/env python3
"""Checks the first words of comments, and the names in declarations, by the rules of CONTRIBUTING.md.

A comment on its own lines, and a docstring, must begin with a noun or a verb, not with a preposition or a pronoun whose
reference is unclear ("Of the rows", "Its last word"). A comment behind code continues its line, and may begin with any
word. A name must be a noun, or a verb for a function, not a preposition, pronoun or quantity (`of`, `own`, `many`)."""

import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folders that are checked. The list grows until it covers the whole tree.
FOLDERS = (
    "bench",
    "cli",
    "emulator",
    "examples",
    "fuzz",
    "include",
    "lab",
    "python",
    "scripts",
    "src/api",
    "src/c",
    "src/collection",
    "src/core",
    "src/cpu",
    "src/gpu",
    "src/hub",
    "src/image",
    "src/io",
    "src/model",
    "src/ops",
    "src/pipeline",
    "src/quantize",
    "src/search",
    "src/text",
    "tests/api",
    "tests/c",
    "tests/cli",
    "tests/core",
    "tests/docs",
    "tests/emulation",
    "tests/hub",
    "tests/install",
    "tests/io",
    "tests/lab",
    "tests/mutation",
    "tests/quantize",
    "tests/scripts",
    "tests/text",
)

# First words that are rejected. "At most" and "At least" are allowed, because a noun follows.
BEGINNING = re.compile(
    r"(?:And|As|At(?! most\b| least\b)|Beside|Besides|Both(?= (?:of|for)\b)|By|For|From|In|It|Its|Likewise|None|Of|On"
    r"|So (?:many|few|much)|Some(?= (?:of|at|in)\b)|That(?= (?:of|on|in|for)\b)|Their|They|Those|To|Upon|Who|Whoever|Whose|With"
    r"|Within|Without)(?=[\s,:;.]|$)",
    re.I,
)
NAMES = frozenset(
    re.findall(
        r"\w+",
        """as at both by it its many most none of off on one own some theirs them these they those upon who whoever
        whom whose with""",
    )
)
CPP = (".cpp", ".hpp", ".h", ".c", ".cu", ".cuh")
# Comments and literals of C and C++. Literals are matched so that their content is not taken for comments or code.
LEXEME = re.compile(
    r'R"([^\s()\\]{0,16})\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
    r"|//(?:[^\\\n]|\\\n|\\.)*|/\*(?:.|\n)*?\*/"
)
# A declaration: a type, a name, and the next token, as in `const auto of =`, `(int at, `, `Row one;`.
DECLARATION = re.compile(
    rf"(?P<type>[A-Za-z_][\w:]*(?:<[^;(){{}}]*>)?)(?:\s+const)?(?:\s*[&*]+\s*|\s+)(?P<name>(?:{'|'.join(sorted(NAMES))})_?)"
    r"\s*(?P<next>[=;,){:(\[]|$)",
    re.M,
)
BINDING = re.compile(r"\bauto\s*[&*]*\s*\[([\w\s,]+)\]")
NO_TYPES = frozenset(
    re.findall(
        r"\w+",
        """return else case new delete throw goto co_return co_yield and or not in typename operator using namespace""",
    )
)


def cpp_comments(text: str) -> list[tuple[int, str]]:
    """Returns the line and the text of each C++ comment that stands on its own lines."""
    comments, last = [], (0, -1)
    for match in LEXEME.finditer(text):
        if not match.group().startswith("/"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start()) - 1
        is_whole_line = not text[match.start() - column : match.start()].strip()
        # A line that continues a comment, which may have begun behind code.
        continued = match.group().startswith("//") and last == (line - 1, column)
        if is_whole_line and not continued:
            comments.append((line, match.group().lstrip("/*!< \n")))
        last = (line, column)
    return comments


def hash_comments(lines: list[str]) -> list[tuple[int, str]]:
    """Returns the line and the text of each comment in a shell script that stands on its own lines."""
    comments, last = [], 0
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#(?!!)", line):
            if last != number - 1:
                comments.append((number, line.lstrip("# ")))
            last = number
    return comments


def python_comments(text: str) -> list[tuple[int, str]]:
    """Returns the line and the text of each docstring, and of each Python comment that stands on its own lines."""
    comments, last = [], (0, -1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            if not token.line[:column].strip() and last != (line - 1, column):
                comments.append((line, token.string.lstrip("# ")))
            last = token.start
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = ast.get_docstring(node)
            if words:
                comments.append((node.body[0].lineno, words))
    return sorted(comments)


def cpp_names(text: str) -> list[tuple[int, str]]:
    """Returns the line and the name of each C++ declaration whose name is rejected. Functions may be called `as` and
    `at`, like those of the standard library."""
    code = LEXEME.sub(lambda match: "\n" * match.group().count("\n") if match.group()[0] == "/" else '""', text)
    names = []
    for match in DECLARATION.finditer(code):
        name = match["name"].rstrip("_")
        if match["type"] not in NO_TYPES and not (name in ("as", "at") and match["next"] == "("):
            names.append((code.count("\n", 0, match.start("name")) + 1, name))
    for match in BINDING.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        names += [(line, name) for name in re.findall(r"\w+", match[1]) if name in NAMES]
    return sorted(names)


def python_names(text: str) -> list[tuple[int, str]]:
    """Returns the line and the name of each Python variable, parameter, function and class whose name is rejected."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = node.name
        else:
            continue
        if name.strip("_").lower() in NAMES:
            names.append((node.lineno, name))
    return sorted(names)


def language(name: str, text: str) -> str:
    """Returns the language of a source: "c++", "python" or "shell", or "" for other files."""
    if name.endswith(CPP):
        return "c++"
    if name.endswith(".py") or text.startswith("#!/usr/bin/env python3"):
        return "python"
    return "shell" if re.match(r"#!.*\b(?:ba)?sh\b", text) else ""


def faults(name: str, text: str) -> list[str]:
    """Returns a message for each rejected comment and name in a file."""
    comments, names = {
        "c++": lambda: (cpp_comments(text), cpp_names(text)),
        "python": lambda: (python_comments(text), python_names(text)),
        "shell": lambda: (hash_comments(text.split("\n")), []),
        "": lambda: ([], []),
    }[language(name, text)]()
    return [
        f'{name}:{line}: a comment begins with "{match.group()}": begin it with a noun or a verb'
        for line, words in comments
        if (match := BEGINNING.match(words))
    ] + [f"{name}:{line}: `{word}` is not a descriptive name: use a noun or a verb" for line, word in names]


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    faults_found, count = [], 0
    for name in listed:
        if not (name and (ROOT / name).is_file()):
            continue  # deleted, but still in the index
        text = (ROOT / name).read_text(errors="replace")
        count += language(name, text) != ""
        faults_found += faults(name, text)
    print("\n".join(faults_found) if faults_found else f"words: comments and names of {count} sources pass")
    return 1 if faults_found else 0


if __name__ == "__main__":
    sys.exit(main())
