#!/usr/bin/env python3
"""Writes games with altered moves, lets `rukh analyze` read them, and compares what it read with what the text says.

    scripts/checks/pgn_games.py target/release/rukh [--minutes 10] [--seed 1] [--keep FOLDER]

The games are made by python-chess. Some are written in other notations and languages, with unusual tags and encodings;
in others a word is damaged, lost, doubled or made up, in the main line or in a variation. python-chess is the judge: a
game with sound words must come back as it was made, and a game with a damaged one must be refused, or come back as the
text says. Refused games must be in the file of rejected games, byte for byte. The counts are printed at the end. Needs
the package `chess`.
"""

import argparse
import collections
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import time

try:
    import chess
    import chess.pgn
except ImportError:
    print("skipped: the Python package chess is not installed")
    sys.exit(0)

GAMES_AT_ONCE = 400

LANGUAGES = {
    "English": "KQRBN",
    "German": "KDTLS",
    "French": "RDTFC",
    "Spanish": "RDTAC",
    "Dutch": "KDTLP",
    "figurines": "♔♕♖♗♘",
}
PIECES = [chess.KING, chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT]

EVENTS = [
    "5th \"X\" Open 2026",
    "C:\\games\\",
    "a ] b [ c",
    "{ no comment }",
    "; 1. e4 *",
    "M\u00fcller \u2013 Garc\u00eda",
    "plain",
    "1-0",
    "a \\\" b",
    "",
]

# Words that are no moves, and that say nothing that could be left out.
MADE_UP = ["Qq5", "xyz", "e9", "e4e", "Nf", "<1>", "&", "1-1", "]", "O-O-O-O", "Kxx", "\u00e9", "33x", "Sg", "e8=Z"]


def random_board(rng):
    if rng.random() < 0.7:
        return chess.Board()
    board = chess.Board()
    for _ in range(rng.randrange(1, 60)):
        moves = list(board.legal_moves)
        if not moves:
            return chess.Board()
        board.push(rng.choice(moves))
    return chess.Board(board.fen()) if any(board.legal_moves) else chess.Board()


def random_moves(rng, board, most):
    board = board.copy(stack=False)
    moves = []
    for _ in range(rng.randrange(1, most)):
        legal = list(board.legal_moves)
        if not legal:
            break
        rare = [move for move in legal if board.is_capture(move) or move.promotion or board.is_castling(move)]
        move = rng.choice(rare if rare and rng.random() < 0.4 else legal)
        moves.append(move)
        board.push(move)
    return moves


def letter(piece, alphabet):
    return alphabet[PIECES.index(piece)] if piece in PIECES else ""


def sound_word(rng, board, move, alphabet):
    """A word for a move in one of many notations."""
    san = board.san(move)
    check = san[-1] if san[-1] in "+#" else ""
    if board.is_castling(move):
        word = rng.choice(["O-O", "0-0", "o-o", "O–O", "0−0"])
        if board.is_queenside_castling(move):
            word += word[1:]
        if rng.random() < 0.15:
            word = move.uci()
    else:
        piece = board.piece_type_at(move.from_square)
        origin, target = chess.square_name(move.from_square), chess.square_name(move.to_square)
        sign = rng.choice("x:×x") if board.is_capture(move) else ""
        style = rng.randrange(6)
        if style == 0:
            word = letter(piece, alphabet) + origin + (sign or "-") + target
        elif style == 1:
            word = letter(piece, alphabet) + origin + target
        elif style == 2:
            word = origin + (sign or rng.choice("-–")) + target
        else:
            body = san.rstrip("+#").split("=")[0]
            body = body.replace("x", rng.choice(["x", ":", "×"]))
            if piece == chess.PAWN and "x" in san and rng.random() < 0.3:
                body = san[0] + target
            word = letter(piece, alphabet) + (body[1:] if piece != chess.PAWN else body)
        if move.promotion:
            promoted = letter(move.promotion, alphabet)
            word += rng.choice(["=%s", "%s", "/%s", "(%s)", "=(%s)", "[%s]"]) % promoted
        if board.is_en_passant(move):
            word += rng.choice(["", "e.p.", "ep", " e.p."])
    if check == "+":
        word += rng.choice(["+", "++", "", " ch", "+"])
    elif check == "#":
        word += rng.choice(["#", "++", "", " mate", "+#", "#"])
    word += rng.choice(["", "", "", "!", "??", "!?", "±", "□", " $14", " +/=", " N"])
    return word


def damaged(rng, word):
    """A word with a character that is lost, doubled, replaced or put in."""
    others = "abcdefgh12345678KQRBNSDTLxO0+#=?!.-:"
    at = rng.randrange(len(word))
    kind = rng.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1:]
    if kind == 1:
        return word[:at] + word[at] + word[at:]
    if kind == 2:
        return word[:at] + rng.choice(others) + word[at + 1:]
    return word[:at] + rng.choice(others) + word[at:]


def numbered(rng, board, words):
    """The words with move numbers in one of several forms."""
    style = rng.randrange(4)
    tokens = []
    number, white = board.fullmove_number, board.turn
    for index, word in enumerate(words):
        if not white:
            tokens += [f"{number}..."] if index == 0 else []
            tokens.append(word)
            number += 1
        elif style == 0:
            tokens += [f"{number}.", word]
        elif style == 1:
            tokens.append(f"{number}.{word}")
        elif style == 2:
            tokens += [f"{number}", word]
        else:
            tokens.append(word)
        white = not white
    return tokens


class Case:
    """A game as text, and what may come back."""

    def __init__(self, rng, number):
        self.kind = rng.choice(["sound", "sound", "damaged", "damaged", "made up", "lost", "tags", "null"])
        self.board = random_board(rng)
        self.moves = random_moves(rng, self.board, 30)
        self.name = f"game {number}"
        alphabet = LANGUAGES[rng.choice(list(LANGUAGES))] if self.kind == "sound" else LANGUAGES["English"]
        self.in_variation = self.kind in ("damaged", "made up") and rng.random() < 0.3
        board = self.board.copy(stack=False)
        words = []
        for move in self.moves:
            words.append(sound_word(rng, board, move, alphabet) if self.kind == "sound" else board.san(move))
            board.push(move)
        if self.kind == "sound" and set(re.findall(r"[A-Z]", "".join(words))) <= set("RON"):
            # A king in French and Spanish may be a rook in English, which comes first.
            board = self.board.copy(stack=False)
            words = []
            for move in self.moves:
                words.append(sound_word(rng, board, move, LANGUAGES["English"]))
                board.push(move)
        # The games that may come back, as moves in UCI; a refusal is always allowed unless `must_be_read`.
        self.accepted = [[move.uci() for move in self.moves]]
        self.must_be_read = self.kind in ("sound", "tags", "null")
        if self.kind == "damaged":
            index = rng.randrange(len(words))
            words[index] = damaged(rng, words[index])
            self.accepted = self.judge(words)
        elif self.kind == "made up":
            words.insert(rng.randrange(len(words) + 1), rng.choice(MADE_UP))
            self.accepted = []
        elif self.kind == "lost" and len(words) > 1:
            del words[rng.randrange(len(words))]
            self.accepted = self.judge(words)
        elif self.kind == "null":
            index = rng.randrange(len(words) + 1)
            board = self.board.copy(stack=False)
            played = self.moves[:index]
            for move in played:
                board.push(move)
            words = words[:index] + [rng.choice(["--", "Z0"])]
            self.accepted = [[move.uci() for move in played] + ["0000"]]
            self.must_be_read = not board.is_check()
        self.words = words
        tokens = numbered(rng, self.board, words)
        moves = rng.choice([" ", "\n", " "]).join(tokens)
        if self.in_variation:
            first = self.moves[0]
            moves = f"{self.board.san(first)} ({moves})"
            self.line = self.accepted
            self.accepted = [[first.uci()]]
        event = rng.choice(EVENTS) if self.kind == "tags" else "plain"
        text = f'[Event "{event}"]\n[Site "{self.name}"]\n'
        if self.board.fen() != chess.STARTING_FEN:
            quote = "" if self.kind == "tags" and rng.random() < 0.3 else '"'
            text += f"[FEN {quote}{self.board.fen()}{quote}]\n"
        text += "\n" + moves + " *\n\n"
        encoding = rng.choice(["utf-8", "utf-8", "cp1252"])
        try:
            self.text = text.encode(encoding)
        except UnicodeEncodeError:
            self.text = text.encode()

    def judge(self, words):
        """The games that the words say: that in English, or else that in the only language that reads them."""
        games = []
        for language in ("English", "German", "French", "Spanish", "Dutch"):
            game = self.judge_in(words, LANGUAGES[language])
            if game is not None and language == "English":
                return [game]
            if game is not None and game not in games:
                games.append(game)
        return games if len(games) == 1 else []

    @staticmethod
    def in_english(word, alphabet):
        """The word in the notation of python-chess; empty if it is not in the language."""
        word = word.replace(":", "x").lstrip(".")
        word = re.sub(r"^[oO0]-[oO0]-[oO0]$", "O-O-O", word)
        word = re.sub(r"^[oO0]-[oO0]$", "O-O", word)
        if word.startswith("O"):
            return word
        if any(capital not in alphabet for capital in re.findall(r"[A-Z]", word)):
            return ""
        return re.sub(r"[A-Z]", lambda found: "KQRBN"[alphabet.index(found.group())], word)

    def judge_in(self, words, alphabet):
        """The moves that the words say in a language, by python-chess; `None` if a word is not a move."""
        board = self.board.copy(stack=False)
        moves = []
        for word in words:
            if re.fullmatch(r"[-+#=!?N]*", word) and word != "--":
                continue
            if re.fullmatch(r"\d+", word) and int(word) == board.fullmove_number:
                continue
            move = None
            # Signs behind a move, which python-chess does not know. An `N` may be a promotion to a
            # knight or the sign of a novelty; `NN` is one of each.
            for sign in (r"(\+-|-\+|\+=|=\+|[!?=+#])+$", r"((?<=[1-8QRBN])N|\+-|-\+|\+=|=\+|[!?=+#])+$"):
                bare = self.in_english(re.sub(sign, "", word), alphabet)
                try:
                    move = move or board.parse_san(bare)
                except ValueError:
                    pass
            if not move:
                return None
            moves.append(move.uci())
            board.push(move)
        return moves


def read_back(path):
    """The games that Rukh has written: their names, moves and, for each variation, its moves."""
    games = {}
    with open(path, encoding="cp1252", errors="replace") as file:
        text = file.read()
    stream = io.StringIO(text)
    while True:
        game = chess.pgn.read_game(stream)
        if game is None:
            return games
        moves = [move.uci() for move in game.mainline_moves()]
        variation = []
        if len(game.variations) > 1:
            node = game.variations[1]
            variation.append(node.move.uci())
            while node.variations:
                node = node.variations[0]
                variation.append(node.move.uci())
        games[game.headers.get("Site", "?")] = (moves, variation, game.errors)


def run(binary, cases, folder, encoding):
    source, output = os.path.join(folder, "in.pgn"), os.path.join(folder, "out.pgn")
    content = b"".join(case.text for case in cases)
    if encoding != "utf-8":
        content = content.decode("ascii").encode(encoding)
    with open(source, "wb") as file:
        file.write(content)
    for name in (output, output + ".rejected"):
        if os.path.exists(name):
            os.remove(name)
    flags = ["--backend=trivial", "--nodes=1", "--variations=none", f"--output={output}", "--config="]
    # Nothing is searched, which would only take time.
    flags.append("--moves=99999-")
    result = subprocess.run([binary, "analyze", *flags, source], capture_output=True, timeout=600)
    rejected = b""
    if os.path.exists(output + ".rejected"):
        with open(output + ".rejected", "rb") as file:
            rejected = file.read()
    return result, read_back(output) if os.path.exists(output) else {}, rejected


def compare(cases, games, rejected, is_plain, counts):
    for case in cases:
        is_kept = (case.text.rstrip() in rejected) if is_plain else (f"[Site \"{case.name}\"]".encode() in rejected)
        found = games.get(case.name)
        where = "variation" if case.in_variation else "main line"
        if found is None:
            counts[f"{case.kind}, {where}: refused"] += 1
            if case.must_be_read and not is_ambiguous(case, rejected):
                yield case, "a sound game is refused"
            if not is_kept:
                yield case, "the game is neither read nor kept"
            continue
        counts[f"{case.kind}, {where}: read"] += 1
        if is_kept:
            yield case, "the game is both read and refused"
        moves, variation, errors = found
        if errors:
            yield case, f"python-chess does not read what was written: {errors}"
        elif moves not in case.accepted:
            yield case, f"another game was read: {moves}"
        elif case.in_variation and variation not in case.line and not (variation == [] and case.line == [[]]):
            yield case, f"another variation was read: {variation}"


def is_ambiguous(case, rejected):
    """Whether a short game means two things in two languages."""
    at = rejected.find(case.text.rstrip())
    return at > 0 and b"in two languages and not the same" in rejected[max(0, at - 200):at]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rukh")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the games that show a fault")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    counts, faults, number = collections.Counter(), 0, 0
    until = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            cases = [Case(rng, number + index) for index in range(GAMES_AT_ONCE)]
            number += len(cases)
            encoding = rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16"])
            if encoding != "utf-8":
                # Such a file cannot have bytes of another encoding in it.
                cases = [case for case in cases if case.text.isascii()]
            result, games, rejected = run(arguments.rukh, cases, folder, encoding)
            counts[f"files in {encoding}"] += 1
            if result.returncode != 0:
                print(f"exit code {result.returncode}: {result.stderr.decode(errors='replace')[-2000:]}")
                return 1
            is_plain = encoding == "utf-8"
            for case, fault in compare(cases, games, rejected, is_plain, counts):
                faults += 1
                print(f"{case.kind}: {fault}\n{case.text.decode('utf-8', errors='replace')}"
                      f"allowed: {case.accepted}\n", flush=True)
                if arguments.keep:
                    with open(os.path.join(arguments.keep, f"{faults}.pgn"), "wb") as file:
                        file.write(case.text)
                if faults >= 20:
                    return 1
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    print(f"{number} games, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
