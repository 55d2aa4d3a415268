"""A UCI engine for the scripts that need only Python, and the speed of a backend alone.

`uci_engine.py` is for the scripts that need a board, and checks every line.
"""

import itertools
import json
import os
import shlex
import subprocess

OPENINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/data/openings.epd")


class PlainEngine:
    """An engine that counts its evaluations (`UCI_ShowEPS`) and searches until its limit (`SmartPruningFactor=0`).

    The first search is over when the object exists, so that the start of the process does not count.
    """

    def __init__(self, command):
        self.process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        options = ["setoption name UCI_ShowEPS value true", "setoption name SmartPruningFactor value 0"]
        self.ask("\n".join([*options, "isready"]), "readyok")
        self.ask("go nodes 1", "bestmove")

    def ask(self, text, end):
        """Sends commands and reads until a line that begins with `end`. Returns the words of the last line of information."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        last = []
        for line in self.process.stdout:
            if line.startswith("info depth"):
                last = line.split()
            if line.startswith(end):
                return last
        raise RuntimeError(f"the engine has ended after {text}")

    def search(self, fen, limit):
        """Searches a position as that of a new game, with a limit such as `nodes 100`."""
        return self.ask(f"ucinewgame\nposition fen {fen}\nisready\ngo {limit}", "bestmove")

    def quit(self):
        """Ends the process."""
        self.process.communicate("quit\n")


def number_after(words, name):
    """The number after a word of a line of information; 0 if the word is missing."""
    return int(words[words.index(name) + 1]) if name in words else 0


def read_positions(path, count):
    """The first `count` positions of an EPD file, as FENs with counters; from the beginning again if there are fewer."""
    with open(path, encoding="utf-8") as file:
        boards = [" ".join(line.split()[:4]) + " 0 1" for line in file if line.strip()]
    return list(itertools.islice(itertools.cycle(boards), count))


def backend_speed(command, batch, threads):
    """The evaluations per second of the backend alone at a batch size (`backendbench`)."""
    program, *flags = shlex.split(command)
    sizes = [f"--start-batch-size={batch}", f"--max-batch-size={batch}", f"--threads={threads}"]
    done = subprocess.run([program, "backendbench", *flags, *sizes, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["sizes"][0]["mean_nps"]
