"""Options that belong together, as one parameter of a command.

    def latency(timed: Timed = given(timed_network), qnn: bool = ...) -> None: ...

`timed_network` is a function whose own parameters are options. The command line has those in the
place of `timed`, and the command gets what the function makes of them. So what several commands ask
for is written once, with what follows from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

Made = TypeVar("Made")


@dataclass(frozen=True)
class _Group:
    make: Callable[..., Any]


def given(make: Callable[..., Made]) -> Made:
    """The default of a parameter that `make` gives, out of the options that it takes."""
    group: Any = _Group(make)
    return group


def spelled_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command as the command line sees it: every group is replaced by its options."""

    def run(**values: Any) -> Any:
        return _call(function, values)

    run.__doc__, run.__annotations__ = function.__doc__, {}
    shown = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in _options(function).values()]
    setattr(run, "__signature__", Signature(shown))  # noqa: B010
    return run


def _options(function: Callable[..., Any]) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for name, own in signature(function).parameters.items():
        found |= _options(own.default.make) if isinstance(own.default, _Group) else {name: own}
    return found


def _call(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    own = signature(function).parameters
    return function(**{
        name: _call(one.default.make, values) if isinstance(one.default, _Group) else values[name]
        for name, one in own.items()
    })  # fmt: skip
