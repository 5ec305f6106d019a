"""The rules of the house, as functions: a source goes in, complaints come out.

Each complaint says what to do. A rule looks at one file and knows nothing of the others.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from core_order import CORE_GROUPS, CORE_ORDER
from import_table import MAY_IMPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES_MAX: Final = 500
CORE_LINES_MAX: Final = 400
NAMELESS: Final = ("utils", "util", "common", "helpers", "helper", "base", "misc")

# Words that must not stand in this file either are put together from halves.
LEFT_UNDONE: Final = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK|(?i:for\s+now))\b")
REGISTRIES: Final = tuple(
    left + right
    for left, right in (
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("npm", "js.com"),
        ("yarn", "pkg.com"),
        ("crates", ".io"),
        ("deb.", "debian.org"),
        ("ana", "conda.org"),
        ("docker", ".io"),
    )
)
EVERYWHERE: Final = ("bin", "dev", "etc", "proc", "run", "usr", "var")
"""The folders at the root of every machine that the project runs on."""
ROUTES: Final = ("api", "assets", "auctions", "flows", "history", "jobs", "queues", "schedules", "workers")
"""Where paths of the web begin."""
ABSOLUTE: Final = re.compile(r"(?<![\w.~/:})\]<>$*\\-])/([A-Za-z][\w.-]+)(?=/[\w.])")
UPWARDS: Final = re.compile(r"(?<![\w./])(?:\.\./)+")

OURS: Final = "hiringhall"

IMPURE: Final = (
    "asyncio",
    "concurrent",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
)
"""What the pure parts, `core` and `dialects`, do without: I/O, clocks, threads, chance."""

DANGEROUS_MODULES: Final = ("pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle")
DANGEROUS_CALLS: Final = ("eval", "exec", "compile", "__import__")


class Complaint(NamedTuple):
    """Where, and what to do."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Source:
    """One Python file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree: most rules look at each."""
        return list(ast.walk(self.tree))

    @property
    def module(self) -> str:
        """Its name below our package, or "" if it stands elsewhere: `core.jobs`."""
        match = re.fullmatch(rf"src/{OURS}/(.+?)(/__init__)?\.py", self.path)
        return match[1].replace("/", ".") if match else ""

    @property
    def in_package(self) -> bool:
        return self.path.startswith(f"src/{OURS}/")

    def part(self, *names: str) -> bool:
        """It belongs to one of these packages of ours."""
        return self.in_package and self.module.split(".")[0] in names

    def complain(self, node: ast.AST | int, text: str) -> Complaint:
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return Complaint(self.path, line, text)


def imports(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every module that a file imports, for types or not; `from a import b` counts as `a.b`."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, f"{node.module or ''}.{alias.name}" if not node.level else f"relative.{alias.name}"


def _fits(module: str, pattern: str, names: dict[str, str]) -> bool:
    """`dialects.<name>` fits `dialects.gearman.wire`; a name that is known already must be the same."""
    if not pattern:
        return True
    words = module.split(".")
    wanted = pattern.split(".")
    if len(words) < len(wanted):
        return False
    for word, want in zip(words, wanted, strict=False):
        if want == "<name>":
            if names.setdefault("name", word) != word:
                return False
        elif word != want:
            return False
    return True


def _place(module: str) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The line of the table for a module, and what `<name>` stands for in it."""
    for place, allowed in MAY_IMPORT:
        names: dict[str, str] = {}
        if _fits(module, place, names):
            return place, allowed, names
    raise AssertionError("the last line of the table fits everything")


def who_imports_what(source: Source) -> Iterator[Complaint]:
    """The table of packages, and nothing relative."""
    if not source.in_package:
        return
    place, allowed, names = _place(source.module)
    for node, name in imports(source):
        if name.startswith("relative."):
            yield source.complain(node, "write the whole name of a module of ours")
        if name.split(".")[0] != OURS:
            continue
        target = name.removeprefix(OURS).lstrip(".").replace("__version__", "version")
        if not any(_fits(target, pattern, dict(names)) for pattern in allowed):
            may = ", ".join(allowed) or "nothing of ours"
            yield source.complain(
                node, f"{place or source.module} may import {may}; not {target}: move it, or ask for it"
            )


def core_order(source: Source) -> Iterator[Complaint]:
    """The core calls downwards: where it runs, a module imports what stands before it in CORE_ORDER."""
    if not source.part("core") or source.module == "core":
        return
    own = source.module.removeprefix("core.")
    if own in CORE_GROUPS:
        return
    if own not in CORE_ORDER:
        yield source.complain(1, f"say in CORE_ORDER where {own} stands")
        return
    for_types = {node for block in _type_blocks(source.tree) for node in ast.walk(block)}
    for node, name in imports(source):
        words = name.split(".")
        if words[:2] != [OURS, "core"] or node in for_types:
            continue
        used = ".".join(words[2:4] if words[2] in CORE_GROUPS else words[2:3])
        if used not in CORE_ORDER[: CORE_ORDER.index(own)]:
            yield source.complain(node, f"core.{own} stands before core.{used} and must not call it")


def _type_blocks(tree: ast.AST) -> Iterator[ast.If]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and dotted_name(node.test) == "TYPE_CHECKING":
            yield node


def purity(source: Source) -> Iterator[Complaint]:
    """No I/O, clock, thread or chance in the pure parts."""
    if not source.part("core", "dialects"):
        return
    for node, name in imports(source):
        if name.split(".")[0] in IMPURE:
            yield source.complain(
                node, f"{name} is not for core and dialects: have the engine hand the value in"
            )
    for node in source.nodes:
        if isinstance(node, ast.Call):
            called = dotted_name(node.func)
            if called.rsplit(".", 1)[-1] in ("now", "utcnow", "today") and "date" in called:
                yield source.complain(node, "that reads a clock: use the scheduler's now_us")
            elif called in ("open", "print", "input", "hash", "id"):
                yield source.complain(
                    node, f"{called}() is I/O, or differs from run to run: keep it out of here"
                )


def dotted_name(node: ast.expr) -> str:
    """`a.b` for the expression a.b; "" for what is not a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value)}.{node.attr}"
    return ""


def _is_set(node: ast.expr | None, known: set[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        called = dotted_name(node.func)
        return called in ("set", "frozenset") or (
            called.rsplit(".", 1)[-1] in ("union", "intersection", "difference", "symmetric_difference")
            and isinstance(node.func, ast.Attribute)
            and _is_set(node.func.value, known)
        )
    if isinstance(node, ast.BinOp):
        return _is_set(node.left, known) or _is_set(node.right, known)
    return isinstance(node, ast.Name | ast.Attribute) and dotted_name(node) in known


def _known_sets(tree: ast.AST) -> set[str]:
    """Names and attributes that are given a set, or declared as one, anywhere in the file."""
    known: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            if re.match(r"(frozen)?set\b|(Abstract|Mutable)?Set\b", ast.unparse(node.annotation)):
                known.add(dotted_name(node.target))
        elif isinstance(node, ast.arg):
            if node.annotation is not None and re.match(r"(frozen)?set\b", ast.unparse(node.annotation)):
                known.add(node.arg)
        elif isinstance(node, ast.Assign) and _is_set(node.value, set()):
            known.update(dotted_name(target) for target in node.targets)
    return known - {""}


def set_order(source: Source) -> Iterator[Complaint]:
    """What happens must not depend on the hash seed."""
    if not source.part("core", "dialects"):
        return
    known = _known_sets(source.tree)
    advice = "the order of a set depends on the hash seed: use a dict, or sorted()"
    for node in source.nodes:
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            if _is_set(node.iter, known) and not _makes_a_set(source.tree, node):
                yield source.complain(node.iter, advice)
        elif isinstance(node, ast.Call) and _orders(node, known):
            yield source.complain(node, advice)


def _orders(call: ast.Call, known: set[str]) -> bool:
    """The call makes an order out of a set."""
    called = dotted_name(call.func)
    of_a_set = bool(call.args) and _is_set(call.args[0], known)
    if called in ("list", "tuple", "iter", "enumerate", "deque", "dict.fromkeys"):
        return of_a_set
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "pop":
        return not call.args and _is_set(call.func.value, known)
    return call.func.attr == "join" and of_a_set


def _makes_a_set(tree: ast.AST, comprehension: ast.AST) -> bool:
    """A set made from a set has no order to get wrong."""
    return any(isinstance(node, ast.SetComp) and comprehension in node.generators for node in ast.walk(tree))


def danger(source: Source) -> Iterator[Complaint]:
    """Nothing that turns data into code."""
    for node, name in imports(source):
        if name.split(".")[0] in DANGEROUS_MODULES:
            yield source.complain(node, f"{name} turns a peer's bytes into code: use msgspec or struct")
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        called = dotted_name(node.func)
        if called in DANGEROUS_CALLS:
            yield source.complain(node, f"{called}() turns text into code: there is always another way")
        if called in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"):
            yield source.complain(node, f"{called} starts a shell: give subprocess.run a list")
        for keyword in node.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and not keyword.value.value
            ):
                yield source.complain(node, "shell=True: give the program and its arguments as a list")


def compiled_ways(source: Source) -> Iterator[Complaint]:
    """What the compiler of the hot packages does not take."""
    if not source.part("core", "dialects", "engine", "transports"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("_thread", "_unix", "_linux"):
            yield source.complain(node, f"the C compiler has the word _{node.attr}: call it something else")
        if isinstance(node, ast.Call) and dotted_name(node.func) in ("dataclass", "dataclasses.dataclass"):
            for _ in [keyword for keyword in node.keywords if keyword.arg == "slots"]:
                yield source.complain(node, "mypyc does not take dataclass(slots=True): write the class out")


def sleeping(source: Source) -> Iterator[Complaint]:
    """A test waits for an event with a time limit, not for time to pass."""
    names = {"time.sleep"}
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            names.update(alias.asname or alias.name for alias in node.names if alias.name == "sleep")
        if isinstance(node, ast.Import):
            names.update(
                f"{alias.asname}.sleep" for alias in node.names if alias.name == "time" and alias.asname
            )
    for node in source.nodes:
        if isinstance(node, ast.Call) and dotted_name(node.func) in names:
            yield source.complain(node, "wait for what must happen, with a time limit, in place of sleeping")


def module_name(source: Source) -> Iterator[Complaint]:
    """A module is called after its idea."""
    for word in source.path.removesuffix(".py").split("/"):
        if word in NAMELESS:
            yield source.complain(1, f"{word} is no idea: call the module after what it holds")


def length(source: Source) -> Iterator[Complaint]:
    lines = source.text.count("\n")
    most = CORE_LINES_MAX if source.part("core") else LINES_MAX
    if lines > most:
        yield source.complain(lines, f"{lines} lines are two ideas ({most} at most): make two modules of it")


def docstring(source: Source) -> Iterator[Complaint]:
    """A module opens with what it is. An empty `__init__.py` is none."""
    if source.tree.body and not ast.get_docstring(source.tree):
        yield source.complain(1, "say in a docstring what this module is, and the law it keeps")


def words(path: str, text: str) -> Iterator[Complaint]:
    """In any text of the project: nothing left undone, nothing about registries or somebody's machine."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := LEFT_UNDONE.search(line):
            yield Complaint(path, number, f"{match[0]}: do it, or open an issue for it")
        for host in REGISTRIES:
            if host in line:
                yield Complaint(
                    path, number, f"{host}: say the name of the package, not where it is fetched from"
                )
        foreign = [match[0] for match in ABSOLUTE.finditer(line) if match[1] not in EVERYWHERE + ROUTES]
        foreign += [match[0] for match in UPWARDS.finditer(line) if match[0].count("/") > path.count("/")]
        for place in foreign:
            yield Complaint(
                path, number, f"{place} is a path of one machine: the project speaks only of itself"
            )


PYTHON_RULES: Final = (
    who_imports_what,
    core_order,
    purity,
    set_order,
    danger,
    compiled_ways,
    module_name,
    length,
    docstring,
)
