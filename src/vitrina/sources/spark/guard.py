"""Whether a SELECT may run in Spark, as far as that can be known there.

Spark's own parser lets nothing but a query stand in parentheses, and nothing else is ever sent to it. What it would let
pass and is no reading of tables is looked for by its words: scripts, methods of Java, files by their paths.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from vitrina.domain.findings import Code, Finding, Phrase
from vitrina.domain.reasons import Reason
from vitrina.domain.wording import NESTED, Because
from vitrina.sources.spark.tokens import Token, read_at, tokens

RUNS_CODE = {"java_method", "reflect", "try_reflect"}
RUNS_TEXT = {"identifier"}  # a name that is made of a text
SESSION = re.compile(r"current_(user|catalog|database|schema)|session_user|user|version|input_file_\w+|current_path")
CHANGING = {
    "rand",
    "randn",
    "random",
    "uuid",
    "shuffle",
    "monotonically_increasing_id",
    "spark_partition_id",
    "randstr",
    "uniform",
}
CLOCK = {"now", "curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "unix_timestamp"}
WORDS = ("current_date", "current_time", "current_timestamp", "localtimestamp")  # without parentheses
WHO = ("current_user", "session_user")  # too
FORMATS = re.compile(
    "avro|binaryfile|console|csv|delta|hudi|iceberg|image|jdbc|json|kafka|libsvm|memory|noop|orc|parquet|protobuf|rate"
    "|socket|state-metadata|statestore|text|xml"
)
PATH = re.compile(r"[/\\~.]|[a-z][\w+.-]*:|.*[/\\]", re.IGNORECASE)
# In the analysed plan a line begins with what is done: a query has none of these. Names of columns come after it.
PLAN = re.compile(
    r"^[\s:+|*!'-]*(?:\(\d+\)\s*)?(?:Execute\s+)?"
    r"(ScriptTransformation\w*|\w+Command|CommandResult|InsertInto\w*|(?:Append|Overwrite)Data\w*|MergeInto\w*)\b(?!:)",
    re.MULTILINE,
)
ASKS_WHO = re.compile(r"\bcurrent_user\(\)")  # in the plan: what `user` means where no column is called so


def judge(select: str, plan: str, allowed: Collection[str]) -> list[Finding]:
    """What is wrong with it, and what is worth saying; `plan` is Spark's own, analysed and not executed."""
    words = tokens(select)
    wrong = [*_wrong(words)]
    if found := PLAN.search(plan):
        wrong.append(Reason.DOES_MORE.of(what=found[1]))
    findings = [Finding("error", "", Code.NO_PLAIN_SELECT, {NESTED: said}) for said in wrong]
    called = {word.text.lower() for word, after in pairwise(words) if word.is_name and after.text == "("}
    called |= _bare(words, WHO) | set(WHO[:1] if ASKS_WHO.search(plan) else ())
    for name in sorted(called - set(allowed)):
        if why := _why_not(name):
            way = Phrase.STORE_IT if why is Phrase.CHANGING else Phrase.ALLOW_IT
            findings.append(
                Finding("error", name, Code.FUNCTION_NOT_ALLOWED, {"function": name, "why": why, "way": way})
            )
    clock = (called & CLOCK) | _bare(words, WORDS)
    return [*findings, *(Finding("warning", f"{n}()", Code.READS_CLOCK, {"what": f"{n}()"}) for n in sorted(clock))]


def _bare(words: Sequence[Token], known: Collection[str]) -> set[str]:
    """Which of these functions are called by their word alone; after a dot it is a column."""
    pairs = pairwise([Token("", ""), *words])
    return {word.text for before, word in pairs if word.kind == "word" and before.text != "." and word.text in known}


def _wrong(words: Sequence[Token]) -> Iterator[Because]:
    texts = [word.text for word in words]
    if ";" in texts:
        yield Reason.SEVERAL_STATEMENTS.of()
    for n, word in enumerate(words):
        after = words[n + 1] if n + 1 < len(words) else Token("", "")
        beyond = words[n + 2] if n + 2 < len(words) else Token("", "")
        if word == Token("word", "using") and after.kind == "string":
            yield Reason.RUNS_SCRIPT.of()
        if word == Token("word", "with") and after.text == "(":
            yield Reason.SETS_OPTIONS.of()
        if word.is_name and after.text == "." and beyond.kind == "quoted" and _is_file(word, beyond):
            yield Reason.READS_PATH.of(path=f"{word.text}.`{beyond.text}`")
        if word == Token("word", "tablesample") and "repeatable" not in _past_parentheses(texts, n + 1):
            yield Reason.SAMPLE_CHANGES.of()
    for table, path in read_at(words):
        if path.kind == "word" and FORMATS.fullmatch(table.text.lower()):
            yield Reason.LIKE_A_PATH.of(path=f"{table.text}.{path.text}")


def _past_parentheses(texts: Sequence[str], at: int) -> Sequence[str]:
    """The word that follows what is in parentheses from there on, if there is one."""
    depth = 0
    for n in range(at, len(texts)):
        depth += {"(": 1, ")": -1}.get(texts[n], 0)
        if depth == 0:
            return texts[n + 1 : n + 2]
    return ()


def _is_file(source: Token, path: Token) -> bool:
    return FORMATS.fullmatch(source.text.lower()) is not None or PATH.match(path.text) is not None


def _why_not(name: str) -> Phrase | None:
    if name in RUNS_CODE:
        return Phrase.REACHES_OUT
    if name in RUNS_TEXT:
        return Phrase.EXECUTES_TEXT
    if SESSION.fullmatch(name):
        return Phrase.READS_SESSION
    return Phrase.CHANGING if name in CHANGING else None
