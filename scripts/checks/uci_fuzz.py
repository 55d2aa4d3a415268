#!/usr/bin/env python3
"""Sends random UCI commands, right ones and wrong ones, and lets python-chess judge every answer.

    scripts/checks/uci_fuzz.py target/release/rukh [--minutes 10] [--seed 1] [--backend random]

Several engines run at the same time. Each gets some hundred lines: positions of random games (also of Chess960, also
finished ones), FENs that are damaged, `go` with valid, odd and hostile parameters, searchmoves, ponder and ponderhit,
stop, isready, setoption, words too many, and noise. It ends by `quit` or by the end of its stdin, in a search or not.
These must hold:

- every `go` has exactly one `bestmove`. It comes by itself if the search has an end, and not before `stop`, `ponderhit`
  or the next command if UCI forbids it;
- the move is legal, and one of the searchmoves if they name a legal move; so is the move to ponder on;
- the line of every info line is legal;
- after a position that was refused, and in a finished game, the move is 0000;
- every `isready` is answered, every line is one of UCI, and the process ends with exit code 0 and an empty stderr.

Prints counts, and the lines of a session at the first fault. Needs the package `chess`.
"""

import argparse
import queue
import random
import re
import subprocess
import sys
import threading
import time

try:
    import chess
except ImportError:
    print("skipped: the Python package chess is not installed")
    sys.exit(0)

# The longest time that an answer may take on a busy machine.
PATIENCE_S = 60.0
LINES_OF_A_SESSION = 300
KNOWN = re.compile(
    r"(id (name|author) .+|uciok|readyok|option name .+|info .+|bestmove \S+( ponder \S+)?|Nothing happens\.)$"
)
OPTIONS = {
    "MultiPV": ["1", "2", "5", "500"],
    "Threads": ["1", "2", "3"],
    "MinibatchSize": ["1", "8", "64"],
    "NNCacheSize": ["0", "1", "20000"],
    "UCI_ShowWDL": ["true", "false"],
    "UCI_ShowMovesLeft": ["true", "false"],
    "VerboseMoveStats": ["true", "false"],
    "Ponder": ["true", "false"],
    "SmartPruningFactor": ["0", "1.33", "10"],
    "CPuct": ["0.5", "3"],
    "Temperature": ["0", "1"],
    "MoveOverheadMs": ["0", "200"],
    "RamLimitMb": ["0", "1", "50"],
    "ContemptMode": ["play", "disable"],
    "ScoreType": ["centipawn", "Q", "W-L"],
    "TimeManager": ["legacy", "smooth", "alphazero"],
    "PerPVCounters": ["true", "false"],
    "ClearTree": [""],
}
HOSTILE = [
    "-1", "0", "1e6", "1e999", "-0", "+5", "2.5", "0x10", "abc", "NaN", "inf", "99999999999", "18446744073709551615",
    "18446744073709551616", "-9223372036854775809", "9" * 300, "\u0663", "e2e4", "--", "%s%n", "\u202e", "''", "5,000",
]
TIMES = ["wtime", "btime", "winc", "binc", "movetime"]
COUNTS = ["movestogo", "depth", "nodes", "mate"]
FENS = [
    "7k/8/8/8/8/8/1q6/K7 w - - 0 1",
    "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1",
    "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1",
    "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 10",
    "8/8/8/8/8/2k5/2n5/KQ6 w - - 97 80",
    "8/P7/8/8/8/8/k6p/7K w - - 99 200",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
]


class Fault(Exception):
    """The engine did what it must not do."""


class Search:
    """A `go` whose move is still to come."""

    def __init__(self, board, wanted):
        self.board = board
        # The legal moves among the searchmoves; empty if all moves may be searched.
        self.wanted = wanted


class Session:
    """One engine from its start to its end."""

    def __init__(self, path, arguments, seed, counts):
        self.dice = random.Random(seed)
        self.counts = counts
        self.transcript = []
        self.process = subprocess.Popen(
            [path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.lines = queue.Queue()
        self.errors = []
        self.threads = [threading.Thread(target=self.read_output), threading.Thread(target=self.read_errors)]
        for thread in self.threads:
            thread.start()
        # The position of the next `go`; None if it was refused. `is_judged` is false if python-chess cannot tell.
        self.board = chess.Board()
        self.board.chess960 = True
        self.is_judged = True
        # Whether the last position is one of Chess960, and whether the engine writes castling as there.
        self.is_chess960 = False
        self.shows_chess960 = False
        self.searches = []

    def read_output(self):
        for line in self.process.stdout:
            self.lines.put(line.decode(errors="backslashreplace").rstrip("\r\n"))
        self.lines.put(None)

    def read_errors(self):
        self.errors.append(self.process.stderr.read().decode(errors="backslashreplace"))

    def send(self, line):
        data = line if isinstance(line, bytes) else line.encode()
        self.transcript.append("> " + data.decode(errors="backslashreplace")[:300])
        self.counts["lines"] += 1
        try:
            self.process.stdin.write(data + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Fault("the engine has ended") from None

    def next_line(self, patience):
        """Judges the next line and returns it; None if none comes in time."""
        try:
            line = self.lines.get(timeout=patience)
        except queue.Empty:
            return None
        if line is None:
            raise Fault("the engine has ended")
        self.judge(line)
        return line

    def judge(self, line):
        self.transcript.append("< " + line[:300])
        if not KNOWN.match(line):
            raise Fault(f"not a line of UCI: {line!r}")
        if line.startswith("info string error: "):
            self.counts["errors"] += 1
        if line.startswith("info ") and " pv " in line and not line.startswith("info string"):
            self.judge_variation(line.split(" pv ")[1].split(" string ")[0].split())
        if line.startswith("bestmove "):
            self.judge_move(line.split())

    def judge_variation(self, moves):
        if not self.searches:
            raise Fault("a line of a search that has ended")
        self.play(self.searches[0].board, moves)
        self.counts["variations"] += 1

    def judge_move(self, words):
        if not self.searches:
            raise Fault("a move too many")
        search = self.searches.pop(0)
        self.counts["moves"] += 1
        if search.board == "unknown":
            return
        if search.board is None or not any(search.board.legal_moves):
            if words[1:] != ["0000"]:
                raise Fault("a move, but there is none")
            self.counts["null moves"] += 1
            return
        moves = self.play(search.board, [word for word in words[1:] if word != "ponder"])
        if search.wanted and moves[0] not in search.wanted:
            raise Fault("a move that is not one of the searchmoves")

    def play(self, board, words):
        """The legal moves that the words name, one after the other."""
        if board == "unknown":
            return []
        if board is None:
            raise Fault("a line of a position that was refused")
        board = board.copy(stack=False)
        moves = []
        for word in words:
            try:
                moves.append(board.parse_uci(word))
            except ValueError as error:
                raise Fault(f"{word}: {error}") from None
            board.push(moves[-1])
        return moves

    def wait_for_moves(self, left=0):
        """Waits until no more than `left` searches are without their moves."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.searches) > left:
            if self.next_line(max(0.0, deadline - time.monotonic())) is None:
                raise Fault("no bestmove")

    def is_ready(self):
        """Waits for the answer to `isready`. Returns the errors before it."""
        extra = self.dice.choice(["", "", "", " now"])
        self.send("isready" + extra)
        errors = []
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line = self.next_line(max(0.0, deadline - time.monotonic()))
            if line is None:
                raise Fault("no readyok")
            if line == "readyok":
                self.counts["isready"] += 1
                return errors[: len(errors) - bool(extra)]
            if line.startswith("info string error: "):
                errors.append(line)

    # The commands.

    def random_game(self):
        dice = self.dice
        kind = dice.randrange(4)
        self.is_chess960 = kind >= 2
        if kind == 0:
            board, start = chess.Board(), "startpos"
        elif kind == 1:
            board = chess.Board(dice.choice(FENS))
            start = "fen " + board.fen()
        else:
            board = chess.Board.from_chess960_pos(dice.randrange(960))
            start = "fen " + board.fen(shredder=dice.random() < 0.5)
        board.chess960 = True
        moves = []
        for _ in range(dice.choice([0, 1, 5, 30, 150])):
            legal = list(board.legal_moves)
            if not legal:
                break
            moves.append(dice.choice(legal))
            board.push(moves[-1])
        if dice.random() < 0.2:
            return board, "position fen " + board.fen(shredder=True, en_passant="fen")
        # A board without `chess960` writes castling in the usual way, if that is possible.
        return board, f"position {start}" + (" moves " + " ".join(m.uci() for m in moves) if moves else "")

    def position(self):
        board, line = self.random_game()
        if self.dice.random() < 0.3 or not self.shows_chess960:
            self.wait_or_stop()
            # Only positions with the usual castling may be written in the usual way.
            self.shows_chess960 = self.is_chess960 or self.dice.random() < 0.5
            self.send(f"setoption name UCI_Chess960 value {str(self.shows_chess960).lower()}")
        # Other errors come before.
        self.is_ready()
        self.send(line)
        if self.is_ready():
            raise Fault("a good position was refused")
        self.board, self.is_judged = board, True
        self.counts["positions"] += 1

    def damaged_position(self):
        dice = self.dice
        _, line = self.random_game()
        for _ in range(dice.randrange(1, 4)):
            words = line.split(" ")
            place = dice.randrange(1, len(words)) if len(words) > 1 else 0
            action = dice.randrange(4)
            if action == 0:
                del words[place]
            elif action == 1:
                words.insert(place, dice.choice(HOSTILE + ["moves", "fen", "startpos", "e2e4", "a7a8q", "0000"]))
            elif action == 2 and words[place]:
                at = dice.randrange(len(words[place]))
                words[place] = words[place][:at] + dice.choice("kKqQ/89xw-\u00e9") + words[place][at + 1:]
            else:
                words[place] = dice.choice(HOSTILE)
            line = " ".join(words)
        if not line.startswith("position"):
            return
        self.is_ready()
        self.send(line)
        if self.is_ready():
            self.board, self.is_judged = None, True
            self.counts["positions refused"] += 1
        else:
            # It is another position, or the same. python-chess reads other mistakes than the engine does.
            self.is_judged = False

    def go(self):
        dice = self.dice
        words, wanted, is_open, has_end = [], [], False, False
        board = self.board if self.is_judged else "unknown"
        legal = list(board.legal_moves) if isinstance(board, chess.Board) else []
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            kind = dice.randrange(12)
            if kind < 3:
                words += ["nodes", str(dice.choice([0, 1, 2, 17, 100, 400]))]
                has_end = True
            elif kind == 3:
                words += ["movetime", str(dice.choice([0, 1, 30, "20.5", -7]))]
                has_end = True
            elif kind == 4:
                clock = ["wtime", str(dice.randrange(-50, 900)), "btime", str(dice.randrange(-50, 900))]
                words += clock + dice.choice([[], ["winc", "10", "binc", "10"], ["movestogo", "3"]])
                has_end = True
            elif kind == 5:
                # The average depth of all visits need not grow, for example if the best
                # line is a proven draw, so this is no end.
                words += ["depth", str(dice.randrange(4))]
            elif kind == 6:
                words += dice.choice([["infinite"], ["ponder"], ["ponder", "wtime", "300", "btime", "300"]])
                is_open = True
            elif kind == 7 and legal and "searchmoves" not in words:
                wanted = dice.sample(legal, min(len(legal), dice.randrange(1, 4)))
                named = [m.uci() for m in wanted] + dice.choice([[], ["e2e5"], ["xyz"], ["0000"]])
                dice.shuffle(named)
                words += ["searchmoves", *named]
            elif kind == 8:
                # The last value of a term counts, so this one must not take the place of an end.
                term = dice.choice(TIMES + COUNTS)
                words += [term, dice.choice(HOSTILE)] if term not in words else []
            elif kind == 9:
                words += [dice.choice(TIMES + COUNTS)]
            elif kind == 10 and "searchmoves" not in words:
                words += [dice.choice(["foo", "Perft", "stop", "go", "\u00e4", "Nodes"]), dice.choice(["", "7", "bar"])]
            else:
                words += ["mate", str(dice.randrange(5))]
        self.send(" ".join(["go", *words]))
        self.searches.append(Search(board, wanted))
        self.counts["go"] += 1
        # The move of the search before comes now, if it has not come yet.
        self.wait_for_moves(left=1)
        if is_open:
            self.wait_without_a_move(0.02 if dice.random() < 0.8 else 0.2)
            self.end_open_search("ponder" in words and "infinite" not in words and has_end)
        elif has_end and dice.random() < 0.9:
            self.wait_for_moves()
        else:
            self.send("stop" + dice.choice(["", " x"]))
            self.wait_for_moves()

    def wait_without_a_move(self, seconds):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.next_line(left)
        if not self.searches:
            raise Fault("a move before the end of an endless search")

    def end_open_search(self, ponderhit_ends):
        kind = self.dice.randrange(6)
        if kind == 0:
            # The next command ends it.
            return
        if kind == 1:
            self.is_ready()
        if kind < 4 and ponderhit_ends:
            self.send("ponderhit")
        else:
            self.send("stop")
        self.wait_for_moves()

    def set_option(self):
        name = self.dice.choice(list(OPTIONS))
        value = self.dice.choice(OPTIONS[name] if self.dice.random() < 0.7 else HOSTILE)
        self.send(f"setoption name {name} value {value}")

    def noise(self):
        dice = self.dice
        kind = dice.randrange(4)
        if kind == 0:
            noise = bytes(dice.randrange(256) for _ in range(dice.randrange(1, 60))).replace(b"\n", b"")
            self.send(b"#" + noise)
        elif kind == 1:
            self.send(dice.choice(["", "   ", "xyzzy", "debug on", "ponderhit", "stop", "UCI", "register later", "D"]))
        elif kind == 2:
            self.send(b"go nodes 5 \xff\xfe")
            self.searches.append(Search(self.board if self.is_judged else "unknown", []))
            self.counts["go"] += 1
            self.wait_for_moves()
        else:
            self.send(" ".join(dice.choice(HOSTILE + list(OPTIONS)) for _ in range(dice.randrange(1, 6))))

    def new_game(self):
        self.send("ucinewgame")
        self.wait_for_moves()

    def introduce(self):
        self.send("uci")
        deadline = time.monotonic() + PATIENCE_S
        while self.next_line(max(0.0, deadline - time.monotonic())) != "uciok":
            if time.monotonic() >= deadline:
                raise Fault("no uciok")

    def run(self):
        commands = [self.position, self.damaged_position, self.go, self.set_option, self.noise, self.new_game]
        commands += [self.introduce, self.is_ready]
        weights = [20, 5, 40, 8, 5, 2, 1, 5]
        for _ in range(LINES_OF_A_SESSION):
            (command,) = self.dice.choices(commands, weights)
            command()
        self.end()

    def end(self):
        self.wait_or_stop()
        self.position()
        go = self.dice.choice([None, "go nodes 300", "go movetime 50", "go infinite", "go ponder", "go mate 3"])
        if go:
            self.send(go)
            self.searches.append(Search(self.board, []))
            self.counts["go"] += 1
        is_quit = self.dice.random() < 0.5
        if is_quit:
            self.send("quit" + self.dice.choice(["", " x"]))
        else:
            self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Fault("the process does not end") from None
        for thread in self.threads:
            thread.join()
        while (line := self.lines.get()) is not None:
            self.judge(line)
        if is_quit:
            # `quit` may leave the last search without its move.
            self.counts["go"] -= len(self.searches)
        elif self.searches:
            raise Fault("no bestmove at the end of stdin")
        if code != 0 or self.errors != [""]:
            raise Fault(f"exit code {code}, stderr {self.errors}")
        self.counts["sessions"] += 1

    def wait_or_stop(self):
        if self.searches:
            self.send("stop")
            self.wait_for_moves()

    def kill(self):
        self.process.kill()
        self.process.wait()


def work(path, arguments, seeds, deadline, counts, faults):
    while time.monotonic() < deadline and not faults:
        seed = next(seeds)
        session = Session(path, arguments, seed, counts)
        try:
            session.run()
        except Fault as fault:
            sent = [line for line in session.transcript if line.startswith("> ")]
            faults.append("\n".join([*sent[-20:], "...", *session.transcript[-20:], f"seed {seed}: {fault}"]))
        finally:
            session.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", type=int, default=2, help="engines at the same time")
    parser.add_argument("--backend", default="random")
    arguments = parser.parse_args()
    names = ["lines", "positions", "positions refused", "go", "moves", "null moves", "variations", "isready", "errors"]
    counts = dict.fromkeys(["sessions", *names], 0)
    faults = []
    deadline = time.monotonic() + 60.0 * arguments.minutes
    threads = []
    for number in range(arguments.engines):
        seeds = iter(range(arguments.seed * 1_000_000 + number, sys.maxsize, arguments.engines))
        flags = ["--config=", f"--backend={arguments.backend}"]
        task = (arguments.engine, flags, seeds, deadline, counts, faults)
        threads.append(threading.Thread(target=work, args=task))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()))
    if faults:
        print(faults[0])
        sys.exit(1)
    if counts["go"] != counts["moves"]:
        print(f"{counts['go']} go, but {counts['moves']} moves")
        sys.exit(1)
    print("uci_fuzz: ok")


if __name__ == "__main__":
    main()
