#!/usr/bin/env python3
"""A client of `rukh analyze --protocol json`, which searches many positions at once.

As a module:

    with Rukh(["rukh", "--nodes=400"]) as engine:
        futures = [engine.analyze(fen=fen, multiPv=2) for fen in fens]
        for future in futures:
            print(future.result()[0]["moveInfos"][0]["san"])

As a program it reads a FEN from each line of stdin, and prints the best move and the expected score of the side to move:

    scripts/analysis_client.py rukh --nodes=400 < positions.fen
"""

import itertools
import json
import subprocess
import sys
import threading
from concurrent.futures import Future


class Rukh:
    """A process that answers requests. Any number of them may be open, and any thread may send them."""

    def __init__(self, command):
        program, *flags = command
        self._process = subprocess.Popen(
            [program, "analyze", "--protocol=json", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        # For each open request: its future, the answers so far, how many there will be, and who wants partial answers.
        self._open = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def analyze(self, on_partial=None, **fields):
        """Sends a request with these fields (docs/analysis.md). The future has the list of its answers, by turn.

        `on_partial` is called with each partial answer, which `reportDuringSearchEvery` asks for.
        """
        turns = len(set(fields["analyzeTurns"])) if "analyzeTurns" in fields else 1
        return self._send(fields, turns, on_partial)

    def act(self, action, **fields):
        """Sends an action, such as "terminate_all". The future has a list with the reply."""
        return self._send({"action": action, **fields}, 1, None)

    def _send(self, fields, answers, on_partial):
        future = Future()
        with self._lock:
            number = next(self._numbers)
            future.id = number
            if self._process.poll() is not None:
                future.set_exception(RuntimeError("the engine has ended"))
                return future
            self._open[number] = (future, [], answers, on_partial)
            self._process.stdin.write(json.dumps({"id": number, **fields}) + "\n")
            self._process.stdin.flush()
        return future

    def _read(self):
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                future, answers, count, on_partial = self._open[answer["id"]]
                is_partial = answer.get("isDuringSearch", False)
                if not is_partial:
                    answers.append(answer)
                is_done = "error" in answer or len(answers) == count
                if is_done:
                    del self._open[answer["id"]]
            if is_partial and on_partial:
                on_partial(answer)
            elif "error" in answer:
                future.set_exception(ValueError(answer["error"]))
            elif is_done:
                future.set_result(sorted(answers, key=lambda answer: answer.get("turnNumber", 0)))
        for future, *_ in self._open.values():
            future.set_exception(RuntimeError("the engine has ended"))

    def close(self):
        """Waits for all answers, and ends the process."""
        self._process.stdin.close()
        self._reader.join()
        self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return
    fens = [line.strip() for line in sys.stdin if line.strip()]
    with Rukh(sys.argv[1:] or ["rukh", "--nodes=400"]) as engine:
        for fen, future in [(fen, engine.analyze(fen=fen)) for fen in fens]:
            (answer,) = future.result()
            best = answer["moveInfos"][0]["san"] if answer["moveInfos"] else answer["rootInfo"]["end"]
            print(f"{best:8} {answer['rootInfo']['expectedScore']:.3f}  {fen}")


if __name__ == "__main__":
    main()
