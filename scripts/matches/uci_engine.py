"""An engine process for the other scripts. python-chess talks to it, and every line is checked against UCI's grammar.

`Engine` extends chess.engine.UciProtocol: it keeps the lines of standard output that are not UCI in `stray_lines`, and
those of standard error in `error_lines`.
"""

import asyncio
import re
import shlex

import chess
import chess.engine

MOVE = r"(?:[a-h][1-8][a-h][1-8][qrbn]?|0000)"
INTEGER = r"-?\d+"
# The terms of an info line with their values.
INFO_TERMS = "|".join(
    [
        rf"(?:depth|seldepth|time|nodes|hashfull|nps|eps|tbhits|multipv|movesleft) {INTEGER}",
        rf"(?:currmovenumber|cpuload) {INTEGER}",
        rf"score (?:cp|mate) {INTEGER}(?: (?:lowerbound|upperbound))?",
        rf"wdl {INTEGER} {INTEGER} {INTEGER}",
        rf"currmove {MOVE}",
        rf"(?:pv|refutation)(?: {MOVE})+",
        rf"currline(?: {INTEGER})?(?: {MOVE})+",
    ]
)
LINES = [
    re.compile(pattern)
    for pattern in [
        r"id (?:name|author) \S.*",
        r"uciok|readyok",
        rf"bestmove {MOVE}(?: ponder {MOVE})?",
        rf"info(?: (?:{INFO_TERMS}))+(?: string .*)?",
        r"info string .*",
        r"option name \S.* type (?:check|spin|combo|button|string)(?: (?:default|min|max|var)(?: .*)?)*",
        r"(?:copyprotection|registration) (?:checking|ok|error)",
    ]
]


def is_uci(line):
    """Whether UCI allows this line from an engine."""
    return any(pattern.fullmatch(line) for pattern in LINES)


# With 0, a lead in visits ends no search of Rukh or lc0.
PRUNING = "SmartPruningFactor"


class Engine(chess.engine.UciProtocol):
    """A UCI engine that keeps the lines that are not UCI."""

    def __init__(self):
        super().__init__()
        self.stray_lines = []
        self.error_lines = []

    def pipe_data_received(self, fd, data):
        if fd == 1 and not all(byte == 10 or byte == 13 or 32 <= byte < 127 for byte in data):
            self.stray_lines.append(repr(bytes(data)))
        super().pipe_data_received(fd, data)

    def line_received(self, line):
        if not is_uci(line):
            self.stray_lines.append(line)
        super().line_received(line)

    def error_line_received(self, line):
        self.error_lines.append(line)


async def start(command, options=None, timeout=60.0, environment=None, at_nodes=False):
    """Starts an engine from a command line (a string or a list) and sets options (a dict of strings). `at_nodes` says
    that its searches are limited by nodes, and adds `exact_nodes`.
    """
    words = shlex.split(command) if isinstance(command, str) else command
    transport, engine = await Engine.popen(words, env=environment)
    await asyncio.wait_for(engine.initialize(), timeout)
    options = dict(options or {})
    if at_nodes and PRUNING in engine.options:
        options = exact_nodes(options)
    await engine.configure(options)
    return transport, engine


def exact_nodes(options):
    """Returns `options` with SmartPruningFactor=0, unless they set it already, so that engines are compared at equal
    nodes. By default lc0 stops when no move can catch up in visits.
    """
    is_given = PRUNING.lower() in (name.lower() for name in options)
    return options if is_given else {PRUNING: "0"} | options


def parse_options(settings):
    """Turns ["Name=Value", ...] into a dict."""
    pairs = [setting.partition("=") for setting in settings]
    wrong = [name for name, equals, _ in pairs if not equals]
    if wrong:
        raise SystemExit(f"option {wrong[0]!r}: expected Name=Value")
    return {name: value for name, _, value in pairs}


class Limit:
    """The limit of a side's searches: `nodes=800`, `depth=8`, `movetime=100` (ms) or `clock=10+0.1` (s)."""

    def __init__(self, text):
        self.text = text
        kind, _, value = text.partition("=")
        self.nodes = self.depth = self.movetime = self.base = None
        self.increment = 0.0
        try:
            if kind == "nodes":
                self.nodes = int(value)
            elif kind == "depth":
                self.depth = int(value)
            elif kind == "movetime":
                self.movetime = int(value) / 1000
            elif kind == "clock":
                base, _, increment = value.partition("+")
                self.base, self.increment = float(base), float(increment or 0)
            else:
                raise ValueError
        except ValueError:
            expected = "nodes=N, depth=N, movetime=MS or clock=BASE+INCREMENT"
            raise SystemExit(f"limit {text!r}: expected {expected}") from None

    def for_move(self, clocks, increments):
        """The limit in python-chess's form; `clocks` and `increments` map each colour to seconds."""
        if self.base is None:
            return chess.engine.Limit(nodes=self.nodes, depth=self.depth, time=self.movetime)
        return chess.engine.Limit(
            white_clock=clocks[chess.WHITE],
            black_clock=clocks[chess.BLACK],
            white_inc=increments[chess.WHITE],
            black_inc=increments[chess.BLACK],
        )
