#!/usr/bin/env python3
"""Lets the parser of lczero-training read training data of Rukh, and compares all that it finds with python-chess.

    scripts/checks/training_chunks.py target/release/rukh --lczero-training FOLDER [--rescorer FILE --syzygy FOLDER]

FOLDER is a checkout of https://github.com/LeelaChessZero/lczero-training. The engine plays games from openings, from
Chess960 positions and from endgames, for every input format, without a network. Each game is replayed on a python-chess
board, which gives the input planes, the legal moves and the result. Needs numpy and the package `chess`. About a minute.

With lc0's rescorer (which its build makes with `-Drescorer=true`) and Syzygy tables, the rescorer also reads all chunks.
It converts games of the first format to the other ones, and its records must be those of the engine for the same games.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import chess
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts" / "training"))
import positions  # noqa: E402 (the folder was added just now)
from chunks import read_chunk  # noqa: E402
from policy_map import INDEX_OF, POLICY_SIZE  # noqa: E402

CLASSICAL, CASTLING_PLANE = 1, 2
FORMATS = [CLASSICAL, CASTLING_PLANE, 3, 4, 132, 5, 133]
ONLY_REPETITIONS = (5, 133)
ARMAGEDDON = (132, 133)
#: The numbers of plies are divided by these in the parser's planes.
RULE50_DIVISOR = {number: 99.0 if number <= 3 else 100.0 for number in FORMATS}

MIRROR_FILES, MIRROR_RANKS, TRANSPOSE = 1, 2, 4
#: What lc0 does with the squares of a move, by the transform of the board.
SQUARE_FLIPS = [0, 7, 56, 63, 63, 63, 63, 63]
BOARDS = 8
ALL = chess.BB_ALL
RESULTS = {"whitewon": 1.0, "draw": 0.0, "blackwon": -1.0}

#: Start positions: openings, Chess960 with all castling rights, and endgames, whose boards are transformed.
CHESS960_NUMBERS = (0, 17, 300, 518, 959)
ENDGAMES = [
    "8/8/3k4/8/8/1K6/6R1/8 b - - 9 40",
    "k7/8/8/3b4/8/2N5/8/K5R1 w - - 0 1",
    "8/8/8/8/4k3/8/3qr3/K7 b - - 4 60",
    "8/1P6/8/5k2/8/8/3K2p1/8 w - - 0 1",
    "4k3/8/8/2pP4/8/8/8/4K3 w - c6 0 2",
]


def en_passant(board):
    """The square that a double push has skipped, if a pawn stands beside it."""
    return board.ep_square if board.has_pseudo_legal_en_passant() else None


def rights(board):
    """The four castling rights, independent of the files of the rooks."""
    return [side(color) for color in chess.COLORS for side in (board.has_kingside_castling_rights,
                                                                board.has_queenside_castling_rights)]


class Moment:
    """A position of a game, and whether it has occurred before."""

    def __init__(self, board, earlier):
        self.board = board.copy(stack=False)
        self.key = (board.board_fen(), board.turn, board.clean_castling_rights(), en_passant(board))
        self.is_repetition = any(self.key == other.key for other in earlier)


def game_moments(line):
    """The searched moments of the game in a line `gameready`, its moves, and its result for White."""
    words = line.split()
    moves = words[words.index("moves") + 1 :]
    fen = chess.STARTING_FEN
    if "from_fen" in moves:
        place = moves.index("from_fen")
        moves, fen = moves[:place], " ".join(moves[place + 1 :])
    board = chess.Board(fen, chess960=True)
    moments = [Moment(board, [])]
    played = []
    for text in moves:
        move = board.parse_uci(text)
        played.append(move)
        board.push(move)
        moments.append(Moment(board, moments))
    first = int(words[words.index("play_start_ply") + 1])
    return moments, played, first, RESULTS[words[words.index("result") + 1]]


def seen(mask, white):
    return mask if white else chess.flip_vertical(mask)


def transformed(mask, transform):
    if transform & MIRROR_FILES:
        mask = chess.flip_horizontal(mask)
    if transform & MIRROR_RANKS:
        mask = chess.flip_vertical(mask)
    if transform & TRANSPOSE:
        mask = chess.flip_anti_diagonal(mask)
    return mask


def choose_transform(board):
    """The transform of lc0's canonical formats: our king comes to the right, and without pawns down and below a
    diagonal."""
    if board.clean_castling_rights():
        return 0
    us, transform = board.turn, 0
    king = seen(board.kings & board.occupied_co[us], us)
    if king & (chess.BB_FILE_A | chess.BB_FILE_B | chess.BB_FILE_C | chess.BB_FILE_D):
        transform |= MIRROR_FILES
    if board.pawns:
        return transform
    if king & (chess.BB_RANK_5 | chess.BB_RANK_6 | chess.BB_RANK_7 | chess.BB_RANK_8):
        transform |= MIRROR_RANKS
    square = chess.lsb(transformed(king, transform))
    across = chess.square_file(square) + chess.square_rank(square) - 7
    if across > 0:
        return transform | TRANSPOSE
    if across == 0:
        sets = [board.occupied, board.occupied_co[us], board.kings, board.queens, board.rooks, board.knights, board.bishops]
        for pieces in sets:
            pieces = transformed(seen(pieces, us), transform)
            reflected = transformed(pieces, TRANSPOSE)
            if pieces != reflected:
                return transform if pieces < reflected else transform | TRANSPOSE
    return transform


def board_planes(moment, us):
    board = moment.board
    kinds = [board.pieces_mask(kind, color) for color in (us, not us) for kind in chess.PIECE_TYPES]
    return [seen(mask, us) for mask in kinds] + [ALL if moment.is_repetition else 0]


def history_planes(moments, number):
    """The boards of the history as lists of 13 masks, newest first; boards before the game stay empty."""
    us, canonical = moments[-1].board.turn, number > 2
    boards, older = [], 0
    while len(boards) < BOARDS:
        in_game = older < len(moments)
        moment = moments[-1 - older] if in_game else moments[0]
        board, skipped = moment.board, en_passant(moment.board)
        if canonical and (rights(board) != rights(moments[-1].board) or older and skipped is not None):
            break
        # An en passant square tells what the position before was.
        if not in_game and (older > len(moments) or skipped is None):
            break
        older += 1
        if number in ONLY_REPETITIONS and boards and not moment.is_repetition:
            if board.halfmove_clock == 0 or not in_game:
                break
            continue
        planes = board_planes(moment, us)
        if not in_game:
            ours = board.turn != us
            file = chess.square_file(skipped)
            place, start = (24 + file, 8 + file) if ours else (32 + file, 48 + file)
            planes[0 if ours else 6] ^= chess.BB_SQUARES[place] | chess.BB_SQUARES[start]
        boards.append(planes)
        if canonical and board.halfmove_clock == 0:
            break
    return boards


def expected_planes(moments, number):
    """The planes [112][64] of the last moment, as the parser gives them, and the transform."""
    board = moments[-1].board
    us, canonical = board.turn, number > 2
    masks = [mask for planes in history_planes(moments, number) for mask in planes]
    masks += [0] * (13 * BOARDS - len(masks))
    if number == CLASSICAL:
        for color in (us, not us):
            masks.append(ALL if board.has_queenside_castling_rights(color) else 0)
            masks.append(ALL if board.has_kingside_castling_rights(color) else 0)
    else:
        sides = [0, 0]
        for rook in chess.SquareSet(board.clean_castling_rights()):
            color = board.color_at(rook)
            sides[rook > board.king(color)] |= chess.BB_SQUARES[rook]
        masks += [seen(sides[0], us), seen(sides[1], us), 0, 0]
    if canonical:
        square = en_passant(board)
        masks.append(0 if square is None else chess.BB_SQUARES[56 + chess.square_file(square)])
    else:
        masks.append(0 if us else ALL)
    transform = choose_transform(board) if canonical else 0
    masks = [transformed(mask, transform) for mask in masks]
    planes = np.array([[mask >> square & 1 for square in range(64)] for mask in masks], dtype=np.float32)
    rule50 = np.full(64, board.halfmove_clock / RULE50_DIVISOR[number], dtype=np.float32)
    armageddon = np.full(64, number in ARMAGEDDON and not us, dtype=np.float32)
    return np.vstack([planes, rule50, armageddon, np.ones(64, dtype=np.float32)]), transform


def policy_index(board, move, transform):
    if not transform:
        return positions.policy_index(board, move)
    flip = (0 if board.turn else 56) ^ SQUARE_FLIPS[transform]
    piece = positions.PROMOTIONS.get(move.promotion)
    if piece is not None:
        # A board with pawns has its files mirrored at most.
        flip = (0 if board.turn else 56) | flip & 7
    return INDEX_OF[move.from_square ^ flip, move.to_square ^ flip, piece]


def check_game(records, line, number):
    """Compares the parsed records of a game with its moves. Returns the transforms of its positions."""
    moments, moves, first, result = game_moments(line)
    # A game that is resigned or adjudicated by tablebases has searched one more position. These games have neither.
    assert len(records) == len(moves) - first, (len(records), line)
    transforms = set()
    for ply, (planes, probabilities, winner, best_q, plies_left) in enumerate(records, start=first):
        board = moments[ply].board
        where = f"format {number}, {board.fen()}"
        expected, transform = expected_planes(moments[: ply + 1], number)
        transforms.add(transform)
        found = np.frombuffer(planes, dtype=np.float32).reshape(112, 64)
        differing = np.nonzero(np.abs(found - expected).max(axis=1) > 1e-6)[0]
        assert not len(differing), f"{where}: planes {differing.tolist()}"

        shares = np.frombuffer(probabilities, dtype=np.float32)
        legal = {policy_index(board, move, transform) for move in board.legal_moves}
        assert set(np.nonzero(shares >= 0)[0].tolist()) == legal, where
        assert np.all(shares[shares < 0] == -1) and abs(shares[shares >= 0].sum() - 1) < 1e-5, where
        assert shares.shape == (POLICY_SIZE,)
        assert shares[policy_index(board, moves[ply], transform)] > 0 or len(legal) == 1, where

        for_us = result if board.turn else -result
        wanted = [for_us == 1, for_us == 0, for_us == -1]
        assert np.frombuffer(winner, dtype=np.float32).tolist() == wanted, where
        wdl = np.frombuffer(best_q, dtype=np.float32)
        assert wdl.min() >= -1e-6 and abs(wdl.sum() - 1) < 1e-5, where
        left = np.frombuffer(plies_left, dtype=np.float32)[0]
        assert left >= len(moves) - ply - 1, f"{where}: {left} plies left"
    return transforms


def play(rukh, number, openings, folder, more):
    """Plays a game from each opening. Returns the lines `gameready`."""
    command = [rukh, "selfplay", "--training", f"--training-dir={folder}", f"--training-input-format={number}",
               "--backend=random", "--visits=12", "--games=-2", f"--openings-pgn={openings}", "--chess960", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("gameready")]


def rescore(args, chunks, folder, *more):
    """Lets the rescorer read the chunks in a folder. Returns the folder of its own."""
    # The rescorer removes what it has read.
    copies, out = folder / "copies", folder / "rescored"
    shutil.rmtree(copies, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(chunks, copies)
    out.mkdir()
    command = [args.rescorer, "rescore", f"--input={copies}", f"--output={out}", "--threads=1", f"--syzygy-paths={args.syzygy}"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    games = len(list(chunks.iterdir()))
    assert done.returncode == 0 and "xception" not in said and f"Games processed: {games}" in said, said
    assert len(list(out.iterdir())) == games, said
    return out


def check_conversions(args, openings, folder):
    """Compares the engine's records of all formats with those that the rescorer makes of the first format's. Returns the
    number of records."""
    same_games = ["--temperature=0", "--noise-epsilon=0", "--nncache=0", "--parallelism=1"]
    chunks = {}
    for number in FORMATS:
        chunks[number] = folder / f"format_{number}"
        play(args.rukh, number, openings, chunks[number], same_games)
    compared = 0
    for number in FORMATS[1:]:
        converted = rescore(args, chunks[CLASSICAL], folder, f"--new-input-format={number}")
        for path in sorted(chunks[number].iterdir()):
            ours, theirs = read_chunk(path), read_chunk(converted / path.name)
            assert len(ours) == len(theirs), (number, path.name)
            for name in ("input_format", "planes", "castling", "side_to_move_or_enpassant", "rule50", "invariance_info",
                         "played_idx", "best_idx", "visits"):  # fmt: skip
                assert (ours[name] == theirs[name]).all(), (number, path.name, name)
            assert np.abs(ours["probabilities"] - theirs["probabilities"]).max() < 1e-6, (number, path.name)
            compared += len(ours)
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rukh", help="the engine")
    parser.add_argument("--lczero-training", type=pathlib.Path, help="checkout of lczero-training")
    parser.add_argument("--rescorer", help="lc0's rescorer")
    parser.add_argument("--syzygy", default=REPOSITORY / "../shared/syzygy", help="Syzygy tables for the rescorer")
    args = parser.parse_args()
    if not args.lczero_training:
        print("skipped: training data are checked with lczero-training's parser (--lczero-training FOLDER)")
        return
    sys.path.insert(0, str(args.lczero_training / "tf"))
    from chunkparser import ChunkParserInner

    starts = [line.split(" acd ")[0] + " 0 1"
              for line in (REPOSITORY / "tests/data/openings.epd").read_text(encoding="utf-8").splitlines()[:4]]
    starts += [chess.Board.from_chess960_pos(number).fen() for number in CHESS960_NUMBERS] + ENDGAMES
    records = transforms = 0
    for number in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            openings = folder / "openings.fen"
            openings.write_text("\n".join(starts) + "\n", encoding="utf-8")
            lines = play(args.rukh, number, openings, folder / "chunks", [])
            assert len(lines) == len(starts), lines
            for line in lines:
                path = line.split(" trainingfile ")[1].split(" gameid ")[0]
                inner = ChunkParserInner(None, [path], number, shuffle_size=1, sample=1, buffer_size=1, batch_size=1,
                                         diff_focus_min=1, diff_focus_slope=0, diff_focus_q_weight=6.0,
                                         diff_focus_pol_scale=3.5, workers=0)
                parsed = list(inner.sequential())
                transforms |= sum(1 << transform for transform in check_game(parsed, line, number))
                records += len(parsed)
            if args.rescorer:
                rescore(args, folder / "chunks", folder)
    assert bin(transforms).count("1") >= 6, f"only the transforms {transforms:b} were tried"
    print(f"lczero-training has read {records} records of {len(FORMATS) * len(starts)} games in "
          f"{len(FORMATS)} input formats; planes, moves and results are those of python-chess")
    if not args.rescorer:
        print("skipped: lc0's rescorer reads the chunks if it is named (--rescorer FILE)")
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        openings = folder / "openings.fen"
        openings.write_text("\n".join(starts[:4]) + "\n", encoding="utf-8")
        compared = check_conversions(args, openings, folder)
    print(f"lc0's rescorer has read all games, and has made the same {compared} records of the other formats")


if __name__ == "__main__":
    main()
