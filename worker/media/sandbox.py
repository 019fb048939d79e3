"""A sandbox for programs that read untrusted files: no network, and only the files they are given.

It uses two features of the Linux kernel that need no privileges. seccomp blocks `socket`, so that no file can make
ffmpeg open a connection. Landlock (kernel 5.13 and later) restricts the program to the named files and folders. Without
seccomp nothing is run. Without Landlock, the caller's own checks of names and formats must be enough.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same numbers on every architecture
LANDLOCK_VERSION, RULE_PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_FILE, MAKE_REG, REFER, TRUNCATE = 1 << 5, 1 << 8, 1 << 13, 1 << 14
ALL_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1}  # later ones: every right up to truncate
# Files that the loader of a dynamically linked program needs.
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")
# audit's name of the architecture, the number of socket(2) there; 425 is io_uring_setup everywhere.
ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
IO_URING_SETUP, X32_BIT = 425, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)  # loaded before any fork


class CannotConfine(Exception):
    """This machine cannot sandbox the program, so it is not started."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_version() -> int:
    """0 if the kernel has no Landlock."""
    return max(0, int(_libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION)))


def no_sockets(machine: str = platform.machine()) -> bytes:
    """The seccomp filter: a call of another architecture ends the program, a socket is refused."""
    if machine not in ARCHITECTURES:
        raise CannotConfine(f"no filter is known for {machine}")
    architecture, socket = ARCHITECTURES[machine]
    load, is_equal, is_at_least, answer = 0x20, 0x15, 0x35, 0x06
    refuse, allow, kill = 0x00050000 | errno.EACCES, 0x7FFF0000, 0x80000000
    steps = [
        (load, 0, 0, 4),
        (is_equal, 1, 0, architecture),
        (answer, 0, 0, kill),
        (load, 0, 0, 0),
        (is_at_least, 3, 0, X32_BIT),
        (is_equal, 2, 0, socket),
        (is_equal, 1, 0, IO_URING_SETUP),
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


class Sandbox:
    """The sandbox of one program. Create it before the fork, enter it after the fork, close it in the parent."""

    def __init__(self, *, reads: Iterable[Path], writes: Iterable[Path] = (), runs: str, memory_mb: int = 0) -> None:
        """`reads` are files or folders, `writes` folders, `runs` is the program itself."""
        self._filter = ctypes.create_string_buffer(code := no_sockets())
        self._program = _Program(len(code) // 8, ctypes.addressof(self._filter))
        self._memory = memory_mb * 1024 * 1024
        self._ruleset = self._make_ruleset(list(reads), list(writes), runs) if landlock_version() else -1

    def _make_ruleset(self, reads: list[Path], writes: list[Path], runs: str) -> int:
        version = landlock_version()
        handled = ALL_OF_ABI.get(version, (1 << 15) - 1)
        attributes = struct.pack("Q", handled)
        ruleset = int(_libc.syscall(LANDLOCK_CREATE, attributes, len(attributes), 0))
        if ruleset < 0:
            raise CannotConfine(f"Landlock: {os.strerror(ctypes.get_errno())}")
        try:
            for name in (*SYSTEM, os.path.realpath(runs)):
                _allow(ruleset, Path(name), (READ_FILE | READ_DIR | EXECUTE) & handled)
            for path in reads:
                _allow(ruleset, path, READ_FILE | READ_DIR)
            for path in writes:
                _allow(ruleset, path, (READ_FILE | READ_DIR | WRITE_FILE | MAKE_REG | REMOVE_FILE | TRUNCATE) & handled)
            _allow(ruleset, Path("/dev/null"), READ_FILE | WRITE_FILE)
        except BaseException:  # also on Ctrl-C: close our descriptors, then raise
            os.close(ruleset)
            raise
        return ruleset

    def enter(self) -> None:
        """Call in the child, between fork and exec. Raises OSError if a restriction cannot be set."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self._memory:
            resource.setrlimit(resource.RLIMIT_AS, (self._memory, self._memory))
        calls: list[tuple[str, Callable[[], int]]] = [("no_new_privs", self._forgo_privileges)]
        if self._ruleset >= 0:
            calls.append(("landlock", lambda: int(_libc.syscall(LANDLOCK_RESTRICT, self._ruleset, 0))))
        calls.append(("seccomp", self._filter_calls))
        for name, call in calls:
            if call() != 0:
                raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    def _forgo_privileges(self) -> int:
        return int(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))

    def _filter_calls(self) -> int:
        return int(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(self._program), 0, 0))

    def close(self) -> None:
        if self._ruleset >= 0:
            os.close(self._ruleset)
            self._ruleset = -1


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """A file gets only the rights that apply to files. A missing path gets none."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not path.is_dir():
            rights &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
        rule = _PathBeneath(rights, handle)
        if _libc.syscall(LANDLOCK_ADD, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0) != 0:
            raise CannotConfine(f"Landlock: {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)
