"""Results of matches in a file, so that the same command plays only the matches that are missing there."""

import json


class SavedResults:
    """The results in the file `path`, one JSON object on each line; without a path, those of this run alone.

    A match is described by a dictionary, whose keys are on the line beside `result`.
    """

    def __init__(self, path):
        self.path = path
        self.results = {}
        if path and path.exists():
            for line in path.read_text().splitlines():
                match = json.loads(line)
                result = match.pop("result")
                self.results[json.dumps(match)] = result

    def get(self, match):
        """The result of a match; None if it was not played."""
        return self.results.get(json.dumps(match))

    def add(self, match, result):
        """Keeps the result of a match, and appends it to the file."""
        self.results[json.dumps(match)] = result
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps({**match, "result": result}) + "\n")
