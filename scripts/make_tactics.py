#!/usr/bin/env python3
"""Makes tests/data/tactics.epd: positions from games in which one move is clearly best, and is not seen at once.

    scripts/match.py --engine1 rukh --engine2 rukh --name1 maia-1900 --option1 WeightsFile=maia-1900.pb.gz \\
        --name2 maia-1100 --option2 WeightsFile=maia-1100.pb.gz --limit nodes=2 --limit2 nodes=3 --games 240 --pgn a.pgn
    scripts/make_tactics.py --judge stockfish a.pgn b.pgn > tests/data/tactics.epd

A position is kept if the judge, with two lines and `--nodes`, finds its best move `--gap` centipawns better than
the second, if that decides something (the second does not win as well, the best does not lose all the same), if
the move does not merely take back, and if the judge preferred others at depths 3 and 4. Weak players' games have
such positions, about one in a hundred. The suite is from the games above, from 240 at one node a move, and from a
few of Rukh's against Stockfish at UCI_Elo 1800. Needs PyPI `chess` and a UCI engine as the judge; made with
Stockfish 15.1.
"""

import argparse
import multiprocessing
import re
import shlex
import subprocess
import sys

import chess
import chess.pgn

# Beyond these, in centipawns, a game is decided, and only a mate is better.
WON, LOST = 600, -600
# A mate, in centipawns: more than any other score.
MATE = 10_000
# A move that a search prefers at one of these depths, in plies, is seen at once. What the first two find is chance.
SHALLOW_DEPTHS = (3, 4)
# A first look, to spare the long one where nothing stands out.
FIRST_NODES, FIRST_GAP = 3000, 80
LINE = re.compile(r"info depth (\d+) .*multipv (\d+) score (cp|mate) (-?\d+) nodes .* pv (\S+)")


class Judge:
    """The engine that says what is best. Spoken to line by line: most searches are shorter than reading them is."""

    def __init__(self, arguments):
        self.arguments = arguments
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(shlex.split(arguments.judge), stdin=pipe, stdout=pipe, text=True, bufsize=1)
        for option in ["Threads value 1", "Hash value 16", "MultiPV value 2"]:
            self.send(f"setoption name {option}")

    def send(self, line):
        self.process.stdin.write(line + "\n")

    def look(self, board, captured_on, nodes, gap):
        """The best move, its score, and whether it is one to be found; `captured_on`: the last move's, if it took."""
        # A new game each time: the same games give the same positions.
        for line in ["ucinewgame", f"position fen {board.fen()}", f"go nodes {nodes}"]:
            self.send(line)
        seen_at_once, lines = set(), {}
        for line in self.process.stdout:
            if line.startswith("bestmove"):
                break
            if found := LINE.match(line):
                depth, rank, kind, value, move = found.groups()
                lines[rank] = move, centipawns(kind, int(value))
                if rank == "1" and int(depth) in SHALLOW_DEPTHS:
                    seen_at_once.add(move)
        (text, best), (_, second) = lines["1"], lines["2"]
        move = chess.Move.from_uci(text)
        is_obvious = text in seen_at_once or move.to_square == captured_on
        decides = best > LOST and (second < WON or best > MATE / 2 > second)
        return move, best, best - second >= gap and decides and not is_obvious


def centipawns(kind, value):
    if kind == "cp":
        return value
    return MATE - value if value > 0 else -MATE - value


def tactics_of_game(game):
    """EPD lines without their numbers; `game`: its first board and its moves; `judge` is the process's own."""
    arguments = judge.arguments
    board, moves = game
    kept, skip = [], arguments.first_ply
    for move in moves:
        captured_on = move.to_square if board.is_capture(move) else None
        board.push(move)
        skip -= 1
        if skip > 0 or board.legal_moves.count() < 2:
            continue
        _, score, stands_out = judge.look(board, captured_on, FIRST_NODES, FIRST_GAP)
        if abs(score) > 2 * WON:
            # Where so much is lost, little happens for a while.
            skip = arguments.apart
        if not stands_out:
            continue
        best, score, stands_out = judge.look(board, captured_on, arguments.nodes, arguments.gap)
        if stands_out:
            kept.append((board.epd(), board.epd(bm=best, ce=score)))
            # The moves that follow are the same tactic.
            skip = arguments.apart
    return kept


def start_judge(arguments):
    global judge
    judge = Judge(arguments)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("games", nargs="+", metavar="PGN")
    parser.add_argument("--judge", required=True, help="UCI engine that says what is best")
    parser.add_argument("--count", type=int, default=210)
    parser.add_argument("--nodes", type=int, default=500_000, help="of the judge's search")
    parser.add_argument("--gap", type=int, default=150, help="centipawns between the best move and the second")
    parser.add_argument("--first-ply", type=int, default=8, help="of the games, counted from where they begin")
    parser.add_argument("--apart", type=int, default=8, help="plies between two positions of a game")
    parser.add_argument("--jobs", type=int, default=1, help="games at a time")
    arguments = parser.parse_args()

    games = []
    for path in arguments.games:
        with open(path, encoding="utf-8") as file:
            while (game := chess.pgn.read_game(file)) is not None:
                # Not the game itself, for long ones are too deep to be sent to another process.
                games.append((game.board(), list(game.mainline_moves())))
    known = set()
    with multiprocessing.Pool(arguments.jobs, start_judge, (arguments,)) as pool:
        for number, kept in enumerate(pool.imap(tactics_of_game, games), 1):
            for board, line in kept:
                if board in known or len(known) == arguments.count:
                    continue
                known.add(board)
                print(f'{line} id "tactics {len(known)}";', flush=True)
            print(f"{number} games, {len(known)} positions", file=sys.stderr)
            if len(known) == arguments.count:
                return
    raise SystemExit(f"only {len(known)} of {arguments.count} positions: more games are needed")


if __name__ == "__main__":
    main()
