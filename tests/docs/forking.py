"""A `vitrina` that starts in no time: a process with everything imported forks for each call, like the real command.

A page runs dozens of commands, and each would spend most of its time importing.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIM = """#!{python} -SE
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(link, [len(said).to_bytes(8, "big")], [0, 1, 2])
link.sendall(said)
sys.exit(int(link.recv(8) or b"1"))
"""


def install(folder: Path) -> subprocess.Popen[bytes]:
    """Put the command into a folder and start what answers it."""
    address = str(folder / "vitrina.sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(16)
    command = folder / "vitrina"
    command.write_text(SHIM.format(python=sys.executable, address=address))
    command.chmod(0o755)
    start = [sys.executable, "-m", "tests.docs.forking", str(server.fileno())]
    with server:
        return subprocess.Popen(start, cwd=ROOT, pass_fds=[server.fileno()])


def answer(server: socket.socket) -> None:
    """One call after the other, each in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        link, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            link.sendall(str(_called(link)).encode())
            os._exit(0)
        link.close()


def _called(link: socket.socket) -> int:
    size, streams, _, _ = socket.recv_fds(link, 8, 3)
    said = link.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    arguments, folder, environment = json.loads(said)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    pid = os.fork()  # the command itself: it may replace its process, as `vitrina psql` does
    if pid == 0:
        os._exit(_run(arguments))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(arguments: list[str]) -> int:
    from vitrina.cli import app

    code: object = 0
    try:
        app(arguments)
    except SystemExit as exit_:
        code = exit_.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    from tests import commands

    list(commands.paths())  # imports every command: the point of it

    answer(socket.socket(fileno=int(sys.argv[1])))
