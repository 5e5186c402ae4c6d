"""Acting as another user of the machine, which only root can."""

import os
import pwd
import tempfile
import warnings
from collections.abc import Callable

import pytest

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def run_as(user: pwd.struct_passwd, act: Callable[[], object]) -> list[str]:
    """What a call gives or raises under another user.

    It is forked, because that user may not be able to reach the interpreter and its modules.
    """
    with tempfile.TemporaryFile("w+") as said:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: they are idle
            child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
                print(act(), file=said, flush=True)
            except BaseException as error:
                print(repr(error), file=said, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        said.seek(0)
        return said.read().splitlines()
