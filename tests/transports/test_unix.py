"""Unix sockets: for their owner alone, never taken from a live program, and removed afterwards."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from hiringhall.transports.unix import PATH_BYTES_MAX, UnixListener, is_taken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0)
    yield tmp_path / "hall.sock"
    os.umask(before)


def test_only_the_owner_may_connect_and_the_umask_is_as_it_was(file: Path) -> None:
    listener = UnixListener(str(file), 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.umask(0) == 0
    listener.socket.close()


def test_the_socket_of_a_program_that_has_died_is_replaced(file: Path) -> None:
    UnixListener(str(file), 1).socket.close()
    assert file.is_socket()
    assert not is_taken(str(file))
    with UnixListener(str(file), 1).socket, socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(file))


@pytest.mark.parametrize("waiting", [0, 3])
def test_a_socket_on_which_a_program_listens_is_left_alone(file: Path, waiting: int) -> None:
    """Also if its backlog is full."""
    listener = UnixListener(str(file), 0)
    peers = [socket.socket(socket.AF_UNIX) for _ in range(waiting)]
    for peer in peers:
        peer.setblocking(False)
        peer.connect_ex(str(file))
    inode = file.stat().st_ino
    with pytest.raises(OSError, match="in use") as caught:
        UnixListener(str(file), 1)
    assert (caught.value.errno, file.stat().st_ino) == (errno.EADDRINUSE, inode)
    for open_socket in (*peers, listener.socket):
        open_socket.close()


def test_a_file_that_is_not_a_socket_is_left_alone(file: Path) -> None:
    file.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        UnixListener(str(file), 1)
    assert file.read_text() == "mine"


def test_a_path_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    room = PATH_BYTES_MAX - len(os.fsencode(tmp_path)) - 1
    longest = tmp_path / ("x" * room)
    UnixListener(str(longest), 1).socket.close()
    with pytest.raises(OSError, match="107 bytes") as caught:
        UnixListener(f"{longest}x", 1)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_its_file_is_removed_unless_another_program_has_replaced_it(file: Path) -> None:
    listener = UnixListener(str(file), 1)
    kept = file.with_name("kept")
    kept.hardlink_to(file)  # its inode is not used again
    listener.remove()
    assert not file.exists()
    listener.remove()
    file.write_text("of another program")
    listener.remove()
    assert file.exists()
    listener.socket.close()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        UnixListener(str(tmp_path / "nowhere" / "hall.sock"), 1)
