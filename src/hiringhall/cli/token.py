"""`hall token`: make, list and revoke tokens, while the hall is running or stopped."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path  # noqa: TC003 (typer looks its types up)
from typing import TYPE_CHECKING, Annotated, Final, cast, get_args

import typer

from hiringhall.access.tokens import Role, Token, TokenList, TokensError
from hiringhall.cli.help_texts import completing
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.remote import JsonFlag, print_json
from hiringhall.cli.reporting import print_error, print_line, print_result
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.cli.tables import as_table
from hiringhall.config.sources import ConfigError
from hiringhall.endpoints import HallError
from hiringhall.storage.opening import open_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLES: Final = get_args(Role)
DAYS_MAX: Final = 36_500
HEADINGS: Final = ("name", "role", "made (UTC)", "expires", "last use")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token: whose it is.")]


def add(
    name: NameArgument,
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="ROLE",
            autocompletion=completing(list(ROLES)),
            help="What it may do. viewer: read; operator: also submit, work, cancel, retry, pause; admin: all.",
        ),
    ],
    expires: Annotated[
        float | None, typer.Option("--expires", metavar="DAYS", help="Default: it does not expire.")
    ] = None,
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Make a token and print it. It is shown once; only a digest of it is kept.

    A running hall knows it within two seconds. Pass it to programs in the environment variable HALL_TOKEN.
    """
    if role not in ROLES:
        raise ConfigError([f'--role: "{role}" is not allowed; it takes {", ".join(ROLES)}'])
    if expires is not None and not 0 < expires <= DAYS_MAX:
        raise ConfigError(
            [f"--expires: {expires:g} is not allowed; it takes days, more than 0, up to {DAYS_MAX}"]
        )
    now = datetime.now(UTC)
    end = now + timedelta(days=expires) if expires is not None else None
    with _tokens(config, data) as kept:
        token = kept.add(name, cast("Role", role), now, end)
        if as_json:
            print_json([{"token": token, "name": name, "role": role, "expires": _second(end)}])
        else:
            print_result(f"{token}\n")
            print_error(f'hall: token "{name}" ({role}) is in {kept.where}; it is not shown again')
    return 0


def show(
    config: ConfigFlag = None,
    data: DataFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """List the tokens, with their last use. The tokens themselves are not kept."""
    with _tokens(config, data) as kept:
        tokens = sorted((kept.read() or {}).values(), key=lambda token: token.name)
    if as_json:
        print_json(_facts(token) for token in tokens)
    elif tokens:
        now = datetime.now(UTC)
        print_result(as_table(HEADINGS, [_cells(token, now) for token in tokens], terminal_width()))
    else:
        print_error(f"hall: {kept.place} has no tokens; make one with `hall token add NAME --role ROLE`")
    return 0


def revoke(
    name: NameArgument, config: ConfigFlag = None, data: DataFlag = None, as_json: JsonFlag = False
) -> int:
    """Revoke a token. A running hall closes its connections within two seconds."""
    with _tokens(config, data) as kept:
        if not kept.revoke(name):
            raise HallError(f'there is no token "{name}" in {kept.where}')
    if as_json:
        print_json([{"revoked": name}])
    else:
        print_line(f'token "{name}" is revoked')
    return 0


@contextmanager
def _tokens(config: Path | None, data: str | None) -> Iterator[TokenList]:
    """The tokens of the hall; errors become HallErrors."""
    hall = load_settings(config, data).config.hall
    if hall.storage != "sqlite":
        raise HallError("hall.storage is memory, so there are no tokens: set it to sqlite")
    try:
        with closing(open_documents(hall.data)) as documents:
            yield TokenList(documents)
    except TokensError as error:
        raise HallError(str(error)) from error


def _facts(token: Token) -> dict[str, str | None]:
    return {
        "name": token.name,
        "role": token.role,
        "made": _second(token.made),
        "expires": _second(token.expires),
        "used": _second(token.used),
    }


def _cells(token: Token, now: datetime) -> list[str]:
    """The texts under HEADINGS."""
    expires = _minute(token.expires) if token.expires is not None else "never"
    if token.has_expired(now):
        expires = f"expired {expires}"
    used = _minute(token.used) if token.used is not None else "never"
    return [token.name, token.role, _minute(token.made), expires, used]


def _second(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="seconds")


def _minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
