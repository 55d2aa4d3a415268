"""The command line of the engine: `rukh`, or `python -m rukh`."""

import shutil
import signal
import sys
import sysconfig

from rukh import _native


def main() -> int:
    """Runs the engine with the arguments of this process, and returns its exit code."""
    # The engine has its own answer to Ctrl+C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = shutil.which("rukh", path=sysconfig.get_path("scripts"))
    return _native.run(["rukh", *sys.argv[1:]], program)


if __name__ == "__main__":
    sys.exit(main())
