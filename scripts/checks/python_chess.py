#!/usr/bin/env python3
"""Uses Rukh through python-chess, as lichess-bot and many other programs do, and checks each answer.

    scripts/checks/python_chess.py target/release/rukh [another_network.pb.gz]

It plays a game with pondering and a game of Chess960, analyses with MultiPV, changes the network during an analysis,
gives a wrong path, and ends a program that is thinking. With another network it also plays from a folder as a user of
lc0 has it, with a network in ONNX's format, and with one that is appended to the binary. python-chess parses strictly:
a line that it does not understand fails the check. Needs the package `chess`. About half a minute.
"""

import argparse
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

try:
    import chess
    import chess.engine
except ImportError:
    print("skipped: the Python package chess is not installed")
    sys.exit(0)

SHORT = chess.engine.Limit(nodes=60)
# The engine must have ended this long after the program that started it.
SOON_S = 5.0

# A program that starts the engine, lets it think, and prints its process id. The check then kills the program.
PROGRAM = """
import subprocess, sys, time
engine = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
engine.stdin.write(b"position startpos\\ngo infinite\\n")
engine.stdin.flush()
while not engine.stdout.readline().startswith(b"info depth"):
    pass
print(engine.pid, flush=True)
time.sleep(60)
"""


class Complaints(logging.Handler):
    """Collects what python-chess complains about."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        line = record.getMessage()
        # Between two searches python-chess expects no messages, although UCI allows them at any time.
        if "info string" not in line:
            self.lines.append(line)


def play(engine, board, moves):
    """The engine plays both sides for that many moves; a wrong move raises an exception."""
    for _ in range(moves):
        if board.is_game_over():
            return
        result = engine.play(board, SHORT, info=chess.engine.INFO_ALL, ponder=True)
        assert result.move in board.legal_moves, (board.fen(), result.move)
        assert "score" in result.info and "pv" in result.info, result.info
        board.push(result.move)


def check_games(engine):
    play(engine, chess.Board(), 20)
    play(engine, chess.Board.from_chess960_pos(300), 20)


def check_analysis(engine):
    board = chess.Board()
    lines = engine.analyse(board, chess.engine.Limit(nodes=200), multipv=4)
    assert [line["multipv"] for line in lines] == [1, 2, 3, 4], lines
    assert len({line["pv"][0] for line in lines}) == 4, lines
    engine.configure({"UCI_ShowWDL": True})
    line = engine.analyse(board, SHORT)
    assert sum(line["wdl"].relative) == 1000, line


def check_searched_moves(engine):
    """Each root move gets a search and a value of its own."""
    board = chess.Board()
    limit = chess.engine.Limit(nodes=200)
    engine.configure({"ScoreType": "Q"})
    values = {}
    for move in map(chess.Move.from_uci, ["g2g4", "e2e4", "f2f3", "d2d4"]):
        info = engine.analyse(board, limit, root_moves=[move], info=chess.engine.INFO_ALL)
        assert info["pv"][0] == move and len(info["pv"]) > 2 and info["nodes"] == 200, info
        values[move.uci()] = info["score"].relative.score()
    engine.configure({"ScoreType": "WDL_mu"})
    assert len(set(values.values())) == 4, values
    assert min(values["e2e4"], values["d2d4"]) > max(values["f2f3"], values["g2g4"]), values


def check_change_of_network(engine, network):
    board = chess.Board("r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3")
    with engine.analysis(board, multipv=3) as analysis:
        next(info for info in analysis if "pv" in info)
        if network:
            engine.configure({"WeightsFile": network})
    assert "score" in engine.analyse(board, SHORT)
    # A wrong path is reported, and the engine plays on with the network that it had.
    engine.configure({"WeightsFile": "/no/such/network.pb.gz"})
    error = "error: cannot load network /no/such/network.pb.gz: "
    with engine.analysis(board, SHORT) as analysis:
        said = [info["string"] for info in analysis if "string" in info]
        assert any(line.startswith(error) and "; playing on with network " in line for line in said), said
        assert "score" in analysis.info
    assert engine.play(board, SHORT).move in board.legal_moves
    with engine.analysis(board) as analysis:
        next(info for info in analysis if "pv" in info)
        engine.configure({"WeightsFile": "/no/other/network.pb.gz", "Hash": 64})
    assert "score" in engine.analyse(board, SHORT)
    engine.configure({"WeightsFile": "<autodiscover>"})
    assert "score" in engine.analyse(board, SHORT)


def check_what_users_of_lc0_have(path, network):
    """The binary takes the place of lc0's: same name, same folder, and the settings that lc0 had."""
    with tempfile.TemporaryDirectory() as folder:
        lc0 = os.path.join(folder, "lc0")
        shutil.copy(path, lc0)
        with open(os.path.join(folder, "lc0.config"), "w", encoding="utf-8") as file:
            file.write(f"weights={network}\nbackend=cuda-auto\nbackend-opts=gpu=0\nthreads=1\nmultipv=2\n")
        with chess.engine.SimpleEngine.popen_uci(lc0) as engine:
            assert "Lc0" in engine.id["name"], engine.id
            assert engine.options["MultiPV"].default == 2, engine.options["MultiPV"]
            assert engine.options["WeightsFile"].default == network, engine.options["WeightsFile"]
            # python-chess refuses a value that is not among the choices.
            engine.configure({"Backend": "cudnn-fp16", "BackendOptions": "gpu=0,multi_stream=true"})
            play(engine, chess.Board(), 4)
        with chess.engine.SimpleEngine.popen_uci([lc0, "--config=", "--backend=blas"]) as engine:
            play(engine, chess.Board(), 4)

        onnx = os.path.join(folder, "network.onnx")
        subprocess.run([path, "leela2onnx", "-i", network, "-o", onnx], check=True, capture_output=True)
        with open(network, "rb") as file:
            appended = file.read()
        with open(lc0, "ab") as file:
            file.write(appended + struct.pack("<I", len(appended)) + b"Lc0!")
        for arguments in [[f"--weights={onnx}"], []]:
            with chess.engine.SimpleEngine.popen_uci([lc0, "--config=", *arguments]) as engine:
                with engine.analysis(chess.Board(), SHORT) as analysis:
                    said = [info["string"] for info in analysis if "string" in info]
                expected = [] if arguments else ["network <embedded, appended to the binary>"]
                assert [line for line in said if "network" in line] == expected, said
                play(engine, chess.Board(), 4)


def check_end_of_the_program(path):
    """The engine ends with the program that started it, even if that program is killed during a search."""
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, path], stdout=subprocess.PIPE, text=True)
    engine_pid = int(program.stdout.readline())
    program.send_signal(signal.SIGKILL)
    program.wait()
    deadline = time.monotonic() + SOON_S
    while is_running(engine_pid):
        assert time.monotonic() < deadline, "the engine goes on although its program was killed"
        time.sleep(0.05)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", help="the engine's binary")
    parser.add_argument("network", nargs="?", help="a network to change to during an analysis")
    arguments = parser.parse_args()
    path = os.path.abspath(arguments.engine)
    complaints = Complaints()
    logging.getLogger("chess.engine").addHandler(complaints)
    with chess.engine.SimpleEngine.popen_uci(path) as engine:
        print(engine.id["name"])
        checks = [
            ("games", lambda: check_games(engine)),
            ("analysis", lambda: check_analysis(engine)),
            ("searched moves", lambda: check_searched_moves(engine)),
            ("change of network", lambda: check_change_of_network(engine, arguments.network)),
            ("end of the program", lambda: check_end_of_the_program(path)),
        ]
        if arguments.network:
            network = os.path.abspath(arguments.network)
            checks.append(("what users of lc0 have", lambda: check_what_users_of_lc0_have(path, network)))
        for name, check in checks:
            start = time.monotonic()
            check()
            print(f"{name}: right ({time.monotonic() - start:.1f} s)")
    if complaints.lines:
        sys.exit("python-chess complains:\n" + "\n".join(complaints.lines))


if __name__ == "__main__":
    main()
