"""No modules import each other in a cycle, not even for types only: one can be read after those that it imports."""
import ast
import unittest
from graphlib import CycleError, TopologicalSorter
from pathlib import Path


def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


class Imports(unittest.TestCase):
    def test_no_modules_import_each_other(self) -> None:
        graph = {path.stem: imports(path) for path in Path(__file__).parent.glob("*.py")}
        self.assertIn("state", graph["launch"])
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            self.fail(" is imported by ".join(error.args[1]))


if __name__ == "__main__":
    unittest.main()
