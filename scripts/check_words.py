#!/usr/bin/env python3
"""Checks how comments begin and what is declared: CONTRIBUTING.md has the rule for both.

A comment on lines of its own, and a docstring, begins with a noun or a verb, and not with a preposition or a pronoun
that leaves open what it tells of ("Of the rows", "Its last word"). A comment behind code continues its line, and may
begin with any word. A name is a noun of the field, or a verb for a function: no preposition, pronoun or quantity
(`of`, `own`, `many`)."""

import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folders and files that are checked: those whose words are mended. It grows until it is the whole tree.
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

# First words that are refused. "At most" and "At least" count something: a noun follows.
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
# Comments and literals of C and C++: what stands in a literal is neither a comment nor a declaration.
LEXEME = re.compile(
    r'R"([^\s()\\]{0,16})\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
    r"|//(?:[^\\\n]|\\\n|\\.)*|/\*(?:.|\n)*?\*/"
)
# A type and a name, and what may follow the name: `const auto of =`, `(int at, `, `Row one;`.
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
    """Line and first words of each comment that has lines of its own."""
    found, last = [], (0, -1)
    for match in LEXEME.finditer(text):
        if not match.group().startswith("/"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start()) - 1
        alone = not text[match.start() - column : match.start()].strip()
        # The next line of a comment, whether that has lines of its own or began behind code.
        continued = match.group().startswith("//") and last == (line - 1, column)
        if alone and not continued:
            found.append((line, match.group().lstrip("/*!< \n")))
        last = (line, column)
    return found


def hash_comments(lines: list[str]) -> list[tuple[int, str]]:
    """Line and first words of each comment of a shell script that has lines of its own."""
    found, last = [], 0
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#(?!!)", line):
            if last != number - 1:
                found.append((number, line.lstrip("# ")))
            last = number
    return found


def python_comments(text: str) -> list[tuple[int, str]]:
    """Line and first words of each docstring, and of each comment that has lines of its own."""
    found, last = [], (0, -1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            if not token.line[:column].strip() and last != (line - 1, column):
                found.append((line, token.string.lstrip("# ")))
            last = token.start
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = ast.get_docstring(node)
            if words:
                found.append((node.body[0].lineno, words))
    return sorted(found)


def cpp_names(text: str) -> list[tuple[int, str]]:
    """Line and name of each declaration whose name is refused. Functions `as` and `at` read as those of the
    standard library do."""
    code = LEXEME.sub(lambda match: "\n" * match.group().count("\n") if match.group()[0] == "/" else '""', text)
    found = []
    for match in DECLARATION.finditer(code):
        name = match["name"].rstrip("_")
        if match["type"] not in NO_TYPES and not (name in ("as", "at") and match["next"] == "("):
            found.append((code.count("\n", 0, match.start("name")) + 1, name))
    for match in BINDING.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        found += [(line, name) for name in re.findall(r"\w+", match[1]) if name in NAMES]
    return sorted(found)


def python_names(text: str) -> list[tuple[int, str]]:
    """Line and name of each variable, parameter, function and class whose name is refused."""
    found = []
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
            found.append((node.lineno, name))
    return sorted(found)


def language(name: str, text: str) -> str:
    """Language of a source: "c++", "python" or "shell"; "" for a file that is no source."""
    if name.endswith(CPP):
        return "c++"
    if name.endswith(".py") or text.startswith("#!/usr/bin/env python3"):
        return "python"
    return "shell" if re.match(r"#!.*\b(?:ba)?sh\b", text) else ""


def faults(name: str, text: str) -> list[str]:
    """What is wrong with the words of a file; nothing for a file that is no source."""
    comments, names = {
        "c++": lambda: (cpp_comments(text), cpp_names(text)),
        "python": lambda: (python_comments(text), python_names(text)),
        "shell": lambda: (hash_comments(text.split("\n")), []),
        "": lambda: ([], []),
    }[language(name, text)]()
    return [
        f'{name}:{line}: a comment begins with "{match.group()}": begin with the noun it tells of, or with a verb'
        for line, words in comments
        if (match := BEGINNING.match(words))
    ] + [f"{name}:{line}: `{word}` is no name: say what it holds" for line, word in names]


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    found, count = [], 0
    for name in listed:
        if not (name and (ROOT / name).is_file()):
            continue  # removed, but not yet from the index
        text = (ROOT / name).read_text(errors="replace")
        count += language(name, text) != ""
        found += faults(name, text)
    print("\n".join(found) if found else f"words: comments and names of {count} sources are words of the field")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
