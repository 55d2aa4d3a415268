#!/usr/bin/env python3
"""Makes tests/data/planes.txt out of lc0's own figures.

    scripts/make_plane_goldens.py GOLDENS_FOLDER > tests/data/planes.txt

GOLDENS_FOLDER holds planes.json (lc0's input planes of each test position, for every input format and
history fill) and the networks' goldens, of which the policy indices of the legal moves are taken.
The text says the same in a third of the size, so that it can be kept in git and read in a diff: an
encoding lists only the planes in which it differs from the one before it. The grammar is in the file.
"""

import json
import pathlib
import sys

HEADER = """\
# lc0's input planes and policy indices; made by scripts/make_plane_goldens.py, not by hand.
# position ID|FEN|MOVES|FEN after the moves, without move number|REPETITIONS
# planes FORMAT FILL TRANSFORM [PLANE=MASK or PLANE=MASK*VALUE ...]
#     only what differs from the encoding above it (at a position's first: from no planes at all)
# crash FORMAT FILL: lc0 dies of this one
# policy TRANSFORM MOVE=INDEX ...
"""


def policies(folder):
    """{position id: {transform: [(move, index), ...]}} of every golden there is."""
    found = {}
    for path in sorted(folder.glob("micro-*.json")):
        for position in json.loads(path.read_text())["positions"]:
            moves = [(move, index) for move, index, _logit in position["policy_raw"]]
            known = found.setdefault(position["id"], {}).setdefault(position["transform"], moves)
            assert sorted(known) == sorted(moves), f"{path}: {position['id']}"
    return found


def plane_text(plane, entry):
    if entry is None:
        return f"{plane}=0"
    mask, value = entry
    mask = f"{int(mask, 16):x}"
    return f"{plane}={mask}" if value == 1 else f"{plane}={mask}*{value!r}"


def main():
    folder = pathlib.Path(sys.argv[1])
    policy_of = policies(folder)
    out = [HEADER.rstrip()]
    for position in json.loads((folder / "planes.json").read_text()):
        final = position["final_fen"].rsplit(" ", 1)[0]
        moves = " ".join(position["moves"])
        out.append(f"position {position['id']}|{position['fen']}|{moves}|{final}|{position['repetitions']}")
        before = {}
        for encoding in position["encodings"]:
            name = f"{encoding['input_format']} {encoding['history_fill']}"
            if encoding.get("lc0_crashes"):
                out.append(f"crash {name}")
                continue
            now = {plane: (mask, value) for plane, mask, value in encoding["planes"]}
            changed = [p for p in range(112) if now.get(p) != before.get(p)]
            out.append(" ".join([f"planes {name} {encoding['transform']}"]
                                + [plane_text(p, now.get(p)) for p in changed]))
            before = now
        for transform, indices in sorted(policy_of.get(position["id"], {}).items()):
            out.append(" ".join([f"policy {transform}"] + [f"{move}={index}" for move, index in indices]))
    print("\n".join(out))


if __name__ == "__main__":
    main()
