#!/usr/bin/env python3
"""Prints the licences of the packages of others that a program contains. They demand to be handed on with it.

usage: scripts/packages/licences.py TARGET [PACKAGE]
  PACKAGE    the package of the program (default: rukh)
"""

import collections
import json
import pathlib
import subprocess
import sys

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
program = (sys.argv[2:] or ["rukh"])[0]
command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", sys.argv[1]]
metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
uses = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
contained, to_do = set(), [id for id, package in packages.items() if package["name"] == program]
while to_do:
    package = to_do.pop()
    if package not in contained:
        contained.add(package)
        # A dependency without a kind is one of the program, and neither of its tests nor of its build.
        to_do += [use["pkg"] for use in uses[package] if any(kind["kind"] is None for kind in use["dep_kinds"])]

print("The program contains these packages. Rust's standard library is under the MIT or the Apache licence.\n")
copies = collections.defaultdict(list)
for package in sorted((packages[id] for id in contained), key=lambda package: package["name"]):
    if package["source"] is None:
        continue
    name = f"{package['name']} {package['version']}"
    authors = ", ".join(package["authors"])
    print(f"- {name}, {package['license']}" + (f", by {authors}" if authors else ""))
    for file in sorted(pathlib.Path(package["manifest_path"]).parent.iterdir()):
        if file.is_file() and file.name.upper().startswith(("LICEN", "UNLICEN", "COPY", "NOTICE")):
            text = file.read_text(encoding="utf-8")
            # Copies differ in their white space.
            copies[" ".join(text.split())].append((name, text))
for same in copies.values():
    names, texts = zip(*same)
    print("", "=" * 100, ", ".join(names), "", texts[0], sep="\n")
