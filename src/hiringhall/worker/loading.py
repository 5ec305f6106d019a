"""The user's module in a child: imported by its name, its hall found, its functions listed."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hiringhall.sdk.hall import Hall
from hiringhall.worker.messages import Served

if TYPE_CHECKING:
    from types import ModuleType

    from hiringhall.sdk.functions import JobFunction

_OURS: Final = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 (text, as in the modules' names)


class CannotLoad(Exception):
    """The text is for the user's terminal: what is wrong with the module."""


class Loaded(NamedTuple):
    """What a child runs."""

    functions: dict[bytes, JobFunction[..., Any]]
    served: list[Served]
    url: str


def load(target: str, folder: str) -> Loaded:
    """Import `module` or `module:hall`. Raises CannotLoad."""
    name, _, attribute = target.partition(":")
    if name.endswith(".py"):
        place, name = os.path.split(name[:-3])
        folder = os.path.join(folder, place)  # noqa: PTH118 (as above)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    hall = _find_hall(_import(name), name, attribute)
    functions = {function.queue.encode(): function for function in hall.functions.values() if function.body}
    if not functions:
        raise CannotLoad(f"{name}: its hall has no functions; put @hall.job above at least one")
    served = [Served(queue, function.is_async, function.codec) for queue, function in functions.items()]
    return Loaded(functions, served, hall.url or "")


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CannotLoad(
                f"no module called {error.name}: run it in the folder where the module is, or set PYTHONPATH"
            ) from error
        raise CannotLoad(_trace(name, error)) from error
    except BaseException as error:  # (a module can raise anything, SystemExit too)
        raise CannotLoad(_trace(name, error)) from error


def _trace(name: str, error: BaseException) -> str:
    """The traceback without the machinery of imports."""
    trace = error.__traceback__
    while trace is not None and (
        trace.tb_frame.f_code.co_filename == __file__ or "importlib" in trace.tb_frame.f_code.co_filename
    ):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return f"{name} cannot be imported:\n{text}"


def _find_hall(module: ModuleType, name: str, attribute: str) -> Hall:
    if attribute:
        hall: object = module
        for part in attribute.split("."):
            hall = getattr(hall, part, None)
        if not isinstance(hall, Hall):
            raise CannotLoad(f"{name} has no Hall called {attribute}")
        return hall
    halls = {id(value): (key, value) for key, value in vars(module).items() if isinstance(value, Hall)}
    if not halls:
        raise CannotLoad(f"{name} has no Hall: write `hall = Hall()` in it, and @hall.job above its functions")
    if len(halls) > 1:
        names = ", ".join(sorted(key for key, _ in halls.values()))
        raise CannotLoad(
            f"{name} has several halls ({names}): say which, such as {name}:{min(names.split(', '))}"
        )
    ((_, found),) = halls.values()
    return found


def user_files() -> list[str]:
    """The files of imported modules that are neither Python's nor installed packages nor ours."""
    paths = sysconfig.get_paths()
    foreign = tuple({paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], _OURS})
    found: dict[str, None] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not os.path.abspath(file).startswith(foreign):  # noqa: PTH100 (as above)
            found[os.path.abspath(file)] = None  # noqa: PTH100
    return list(found)


def files_of(error: BaseException) -> list[str]:
    """The files of a traceback, and of a syntax error: to be watched until they change."""
    found: dict[str, None] = {}
    each: BaseException | None = error
    while each is not None:
        for frame in traceback.extract_tb(each.__traceback__):
            found[frame.filename] = None
        if isinstance(each, SyntaxError) and each.filename:
            found[each.filename] = None
        each = each.__cause__ or each.__context__
    return [os.path.abspath(file) for file in found if os.path.isfile(file)]  # noqa: PTH100, PTH113
