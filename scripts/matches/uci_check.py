#!/usr/bin/env python3
"""Checks an engine's UCI protocol: it plays whole games against itself under python-chess.

    scripts/matches/uci_check.py target/release/rukh --backend=trivial

The games are of standard chess and of Chess960, each with fixed nodes, with a fixed time, and with a clock and
increment (with and without pondering). Every move must be legal, no clock may run out, a fixed time must be kept, every
line on standard output must be UCI, nothing may panic, and the processes must exit with code 0 after `quit`. The script
prints a line for each game, and exits with code 1 if a game failed. Needs python-chess (PyPI `chess`).
"""

import argparse
import asyncio
import sys
import time

import chess
import chess.engine

import uci_engine

# A move that exceeds its fixed time by more than this is late, in seconds.
LATE = 0.25
# An engine that has not answered after this time hangs, in seconds.
PATIENCE = 60.0
DEFAULT_LIMITS = ["nodes=60", "movetime=40", "clock=4+0.05"]


class Failure(Exception):
    """A game in which something went wrong."""


async def play_game(engines, board, limit, ponder, max_plies):
    """Plays a game to its end; `engines` maps each colour to its engine. Returns the reason why the game ended."""
    clocks = {chess.WHITE: limit.base, chess.BLACK: limit.base}
    increments = {chess.WHITE: limit.increment, chess.BLACK: limit.increment}
    game = object()
    while (outcome := board.outcome(claim_draw=True)) is None and board.ply() < max_plies:
        color = board.turn
        start = time.monotonic()
        try:
            allowed = limit.for_move(clocks, increments)
            asked = engines[color].play(board, allowed, game=game, info=chess.engine.INFO_ALL, ponder=ponder)
            played = await asyncio.wait_for(asked, (limit.base or limit.movetime or 0) + PATIENCE)
        except chess.engine.EngineError as error:
            raise Failure(f"{board.fen()}: {error}") from error
        except (TimeoutError, asyncio.TimeoutError):
            raise Failure(f"{board.fen()}: no answer") from None
        spent = time.monotonic() - start
        if played.move is None:
            raise Failure(f"{board.fen()}: no move")
        if limit.movetime is not None and spent > limit.movetime + LATE:
            raise Failure(f"{board.fen()}: {spent:.3f} s for a move of {limit.movetime} s")
        if limit.base is not None:
            if spent > clocks[color]:
                raise Failure(f"{board.fen()}: lost on time: {spent:.3f} s of {clocks[color]:.3f} s")
            clocks[color] += limit.increment - spent
        if "nodes" not in played.info or "score" not in played.info:
            raise Failure(f"{board.fen()}: a move without nodes and score")
        board.push(played.move)
    return outcome.termination.name.lower() if outcome else "length"


async def check_game(arguments, board, limit, ponder):
    """Plays one game with two new processes."""
    options = uci_engine.parse_options(arguments.option)
    command = [arguments.engine, *arguments.arguments]
    started = [await uci_engine.start(command, options) for _ in range(2)]
    engines = {chess.WHITE: started[0][1], chess.BLACK: started[1][1]}
    try:
        ending = await play_game(engines, board, limit, ponder, arguments.max_plies)
        for engine in engines.values():
            try:
                await asyncio.wait_for(engine.quit(), PATIENCE)
            except (TimeoutError, asyncio.TimeoutError):
                raise Failure("the engine does not quit") from None
    finally:
        for transport, engine in started:
            if not engine.returncode.done():
                transport.kill()
    for engine in engines.values():
        if engine.stray_lines:
            raise Failure(f"stray line on standard output: {engine.stray_lines[0]!r}")
        if any("panicked at" in line for line in engine.error_lines):
            raise Failure("\n".join(engine.error_lines))
        if engine.returncode.result() != 0:
            raise Failure(f"exit code {engine.returncode.result()}")
    return ending


async def run(arguments):
    limits = [uci_engine.Limit(text) for text in arguments.limit or DEFAULT_LIMITS]
    # Pondering is tested with a clock only: elsewhere it serves no purpose.
    kinds = [(limit, ponder) for limit in limits for ponder in (False, True) if not ponder or limit.base]
    starts = {
        "standard": chess.Board(),
        f"chess960 {arguments.chess960}": chess.Board.from_chess960_pos(arguments.chess960),
    }
    failures = 0
    for limit, ponder in kinds:
        for name, opening in starts.items():
            board = opening.copy()
            title = f"{name}, {limit.text}{', pondering' if ponder else ''}"
            start = time.monotonic()
            try:
                ending = await check_game(arguments, board, limit, ponder)
            except Failure as failure:
                failures += 1
                print(f"FAILED {title}: {failure}", flush=True)
                continue
            seconds = time.monotonic() - start
            print(f"ok {title}: {board.ply()} plies, {ending}, {seconds:.1f} s", flush=True)
    return failures


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--limit", action="append", help="nodes=N, movetime=MS, clock=BASE+INCREMENT (s)")
    parser.add_argument("--option", action="append", default=[], metavar="Name=Value", help="UCI option")
    parser.add_argument("--max-plies", type=int, default=300, help="length at which a game is broken off")
    parser.add_argument("--chess960", type=int, default=356, metavar="N", help="starting position, 0 to 959")
    parser.add_argument("engine", help="program of the engine")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="flags of the engine")
    sys.exit(1 if asyncio.run(run(parser.parse_args())) else 0)


if __name__ == "__main__":
    main()
