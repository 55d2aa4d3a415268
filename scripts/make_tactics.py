#!/usr/bin/env python3
"""Makes tests/data/tactics.epd: positions from games in which one move is clearly best, and is not seen at once.

    scripts/match.py --engine1 rukh --engine2 rukh --name1 maia-1900 --option1 WeightsFile=maia-1900.pb.gz \\
        --name2 maia-1100 --option2 WeightsFile=maia-1100.pb.gz --limit nodes=1 --games 240 --pgn games.pgn
    scripts/make_tactics.py --judge stockfish games.pgn > tests/data/tactics.epd

A position is kept if the judge, with two lines and `--nodes`, finds its best move `--gap` centipawns better than
the second, if that decides something (the second does not win as well, the best does not lose all the same), if
the move does not merely take back, and if the judge's searches to depths 1 to 4 all prefer another. Weak players'
games have many such positions. Needs PyPI `chess` and a UCI engine as the judge; made with Stockfish 15.1.
"""

import argparse
import multiprocessing
import sys

import chess
import chess.engine
import chess.pgn

# Beyond these, in centipawns, a game is decided.
WON, LOST = 250, -250
# A mate, in centipawns: more than any other score.
MATE = 10_000
SHALLOW_DEPTHS = [1, 2, 3, 4]
# A first look, to spare the long one where nothing stands out.
FIRST_NODES, FIRST_GAP = 30_000, 100


class Judge:
    """The engine that says what is best."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.engine = chess.engine.SimpleEngine.popen_uci(arguments.judge)
        # One thread and a fresh game for each search: the same games give the same positions.
        self.engine.configure({"Threads": 1, "Hash": 64})

    def lines(self, board, limit, count):
        return self.engine.analyse(board, limit, multipv=count, game=object())

    def stands_out(self, board, nodes, gap):
        """The best move and its score, if it is that much better than the second and decides something."""
        lines = self.lines(board, chess.engine.Limit(nodes=nodes), 2)
        best, second = (line["score"].relative.score(mate_score=MATE) for line in lines)
        decides = best - second >= gap and second < WON and best > LOST
        return (lines[0]["pv"][0], best) if decides else None

    def is_seen_at_once(self, board, move):
        limits = [chess.engine.Limit(depth=depth) for depth in SHALLOW_DEPTHS]
        return any(self.lines(board, limit, 1)[0]["pv"][0] == move for limit in limits)

    def tactic(self, board, captured_on):
        """The move to be found and its score, or None; `captured_on`: the square if the last move was a capture."""

        def is_obvious(move):
            return move.to_square == captured_on or self.is_seen_at_once(board, move)

        if board.legal_moves.count() < 2:
            return None
        first = self.stands_out(board, FIRST_NODES, FIRST_GAP)
        if first is None or is_obvious(first[0]):
            return None
        found = self.stands_out(board, self.arguments.nodes, self.arguments.gap)
        return None if found is None or is_obvious(found[0]) else found


def tactics_of_game(game):
    """EPD lines without their numbers; `judge` is the process's own."""
    kept, board, skip = [], game.board(), judge.arguments.first_ply
    for move in game.mainline_moves():
        captured_on = move.to_square if board.is_capture(move) else None
        board.push(move)
        skip -= 1
        if skip > 0 or board.is_game_over():
            continue
        found = judge.tactic(board, captured_on)
        if found is not None:
            best, score = found
            kept.append((board.epd(), board.epd(bm=best, ce=score)))
            # The moves that follow are the same tactic.
            skip = judge.arguments.apart
    return kept


def start_judge(arguments):
    global judge
    judge = Judge(arguments)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("games", nargs="+", metavar="PGN")
    parser.add_argument("--judge", required=True, help="UCI engine that says what is best")
    parser.add_argument("--count", type=int, default=240)
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
                games.append(game)
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
