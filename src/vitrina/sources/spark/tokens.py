"""A text in Spark's SQL, word by word: what stands in strings and comments is no word of it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Comments of Spark nest; a hint is one too. A string takes escapes unless it is raw. Quotes within quotes are doubled.
TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*)
      | (?P<comment>/\*)
      | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
      | (?P<quoted>`(?:``|[^`])*`)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
COMMENT = re.compile(r"/\*|\*/")
READS = {"from", "join"}
NAMES_TABLES = READS | {"table"}


@dataclass(frozen=True)
class Token:
    """A word, a name in backticks, a string, a number, or a sign."""

    kind: str
    text: str  # of a name without its backticks, of a word in small letters

    @property
    def is_name(self) -> bool:
        """Whether it may name something."""
        return self.kind in ("word", "quoted")


def tokens(text: str) -> list[Token]:
    """All of them; what is left open goes to the end."""
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found is not None
        at = found.end()
        kind = str(found.lastgroup)
        if kind == "comment":
            at = _end_of_comment(text, at)
        elif kind == "quoted":
            yield Token(kind, found[0][1:-1].replace("``", "`"))
        elif kind != "blank":
            yield Token(kind, found[0].lower() if kind == "word" else found[0])


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    for found in COMMENT.finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def tables_of(select: str) -> list[str]:
    """What it names after FROM and JOIN, as they are written; a name of its own WITH has no dot."""
    words = tokens(select)
    names = (_name(words[n + 1 :]) for n, word in enumerate(words) if word.kind == "word" and word.text in READS)
    return sorted({name for name in names if "." in name})


def read_at(words: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    """The first two parts of each name with a dot that stands where a table may stand: after FROM, JOIN, TABLE, or a
    comma that follows them, if it does not part what is selected."""
    lists, may_come = [False], False  # by parentheses: whether a comma there parts tables; and whether one comes now
    for word, dot, then in zip(words, words[1:], words[2:], strict=False):
        if may_come and word.is_name and dot.text == "." and then.is_name:
            yield word, then
        is_word = word.kind == "word"
        if word.text == "(":
            lists.append(may_come)
        elif word.text == ")":
            lists = lists[:-1] or [False]
        elif word == Token("word", "select") and dot.text != ",":
            lists[-1] = False
        elif is_word and word.text in NAMES_TABLES:
            lists[-1] = True
        is_first = word.text == "(" and may_come
        may_come = is_first or (is_word and word.text in NAMES_TABLES) or (word.text == "," and lists[-1])


def _name(words: Sequence[Token]) -> str:
    parts = []
    for n in range(0, len(words), 2):
        if not words[n].is_name:
            break
        parts.append(words[n].text)
        if n + 1 >= len(words) or words[n + 1].text != ".":
            break
    return ".".join(parts)
