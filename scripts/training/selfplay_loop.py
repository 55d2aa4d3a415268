#!/usr/bin/env python3
"""Improves a network by games against itself: plays games, trains on them, and plays the new network against the old.

    scripts/training/selfplay_loop.py --rukh target/release/rukh --network weights/rukh-128x6.pb.gz --folder run \\
        --rounds 10 --games 5000 --visits 400 --train-seconds 1800 --match-games 1000 --openings openings.epd

The network must come from train.py, which begins with it and keeps its shape. Each round has a folder in --folder, and
what is in it is not done again: after an interruption, the same command goes on with the same game, training or match.
`loop.jsonl` gets a line for each match. The next round begins with the new network, or with the better one if --gate is
given. Needs PyTorch and numpy. Arguments after `--` go to train.py.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import lc0_file
from chunks import Chunks

TRAIN = Path(__file__).with_name("train.py")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rukh", required=True, help="the engine")
    parser.add_argument("--network", required=True, type=Path, help="the first network")
    parser.add_argument("--folder", required=True, type=Path, help="folder for everything that is made")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--openings", help="openings of the matches, and of the training games with --train-openings")
    parser.add_argument("--option", action="append", default=[], help="flag of the engine in games and matches, as in --option=--backend=rocm-fp16")

    games = parser.add_argument_group("games")
    games.add_argument("--games", type=int, default=1000, help="training games in each round")
    games.add_argument("--visits", type=int, default=400, help="visits of each search in them")
    games.add_argument("--game-option", action="append", default=[], help="flag of the engine in training games only")
    games.add_argument("--train-openings", action="store_true", help="begin training games with the openings too")
    games.add_argument("--games-per-archive", type=int, default=1000)

    train = parser.add_argument_group("training")
    train.add_argument("--train-seconds", type=float, default=600)
    train.add_argument("--window", type=int, default=5, help="rounds whose games are trained on, the last ones")
    # With more, a network soon forgets what it knows.
    train.add_argument("--learning-rate", type=float, default=3e-4)

    match = parser.add_argument_group("match")
    match.add_argument("--match-games", type=int, default=400, help="the most games; the test may end the match earlier")
    match.add_argument("--match-visits", type=int, default=200)
    match.add_argument("--sprt", default="0,10", help="the Elo differences between which the test decides")
    match.add_argument("--gate", action="store_true", help="begin the next round with the old network if it scores more")
    parser.add_argument("train_arguments", nargs="*", help="arguments for train.py, after `--`")
    return parser.parse_args()


def play_games(args, network, folder):
    """Plays what is missing of a round's games."""
    source = Chunks(folder, heldout=sys.maxsize)
    done = source.read_new()[2] if folder.exists() else 0
    if done >= args.games:
        return
    command = [
        args.rukh, "selfplay", "--training", f"--training-dir={folder}", f"--training-tar={args.games_per_archive}",
        f"--weights={network}", f"--games={args.games - done}", f"--visits={args.visits}", *args.option, *args.game_option,
    ]  # fmt: skip
    if args.openings and args.train_openings:
        command += [f"--openings-pgn={args.openings}", "--openings-mode=random", f"--seed={done}"]
    print(f"{folder}: {args.games - done} games", flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def shape_flags(network):
    """The flags of train.py for the shape of a network file."""
    flags = []
    for name, value in lc0_file.read(network).shape.as_dict().items():
        if name != "smolgen_activation":
            text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            flags.append(f"--{name.replace('_', '-')}={text}")
    return flags


def train(args, parent, folders, folder):
    """Trains the network of a round, unless there is one. A checkpoint of an interrupted training is continued."""
    network = folder / "network.pb.gz"
    if network.exists():
        return network
    unfinished = folder / "unfinished.pb.gz"
    command = [
        sys.executable, TRAIN, "--chunks", "--data", *folders, "--start-from", parent, *shape_flags(parent),
        "--seconds", str(args.train_seconds), "--learning-rate", str(args.learning_rate), "--minimum-records", "1",
        "--checkpoint", folder / "checkpoint.pt", "--export", unfinished, "--log", folder / "train.jsonl",
        "--name", folder.name, *args.train_arguments,
    ]  # fmt: skip
    subprocess.run(command, check=True)
    unfinished.rename(network)
    return network


def play_match(args, network, parent, folder):
    """The result of the new network against its parent, as `rukh selfplay --json` gives it."""
    result = folder / "match.json"
    if not result.exists():
        command = [
            args.rukh, "selfplay", "--json", f"--player1.weights={network}", f"--player2.weights={parent}",
            f"--games={args.match_games}", f"--visits={args.match_visits}", f"--sprt={args.sprt}", *args.option,
        ]  # fmt: skip
        if args.openings:
            command += [f"--openings-pgn={args.openings}", "--openings-mode=shuffled", "--mirror-openings"]
        else:
            command.append("--temperature=0.5")
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        unfinished = result.with_suffix(".unfinished")
        unfinished.write_bytes(done.stdout)
        unfinished.rename(result)
    return json.loads(result.read_text(encoding="utf-8"))


def main():
    args = arguments()
    network = args.network.resolve()
    lines = []
    for number in range(1, args.rounds + 1):
        folder = args.folder.resolve() / f"round_{number:04}"
        folder.mkdir(parents=True, exist_ok=True)
        play_games(args, network, folder / "chunks")
        folders = [args.folder.resolve() / f"round_{old:04}" / "chunks" for old in range(1, number + 1)]
        trained = train(args, network, folders[-args.window :], folder)
        match = play_match(args, trained, network, folder)
        line = {"round": number, "parent": str(network), "network": str(trained), "games": args.games, "match": match}
        lines.append(json.dumps(line))
        (args.folder / "loop.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"round {number}: {match['wins']} wins, {match['draws']} draws, {match['losses']} losses, Elo difference "
              f"{match['elo']} ({match['elo_low']} to {match['elo_high']}), {match['sprt']['verdict']}", flush=True)  # fmt: skip
        if not args.gate or match["wins"] >= match["losses"]:
            network = trained


if __name__ == "__main__":
    main()
