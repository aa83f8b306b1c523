"""Functions of installed Python files as comera finds them, against Python's own parser. Usage: compare_functions.py TOOL"""
import ast
import pathlib
import subprocess
import sys
import sysconfig
import warnings

EVERY = 7  # files between two that are compared
paths = sorted({str(p) for key in ("stdlib", "platstdlib", "purelib", "platlib")
                for p in pathlib.Path(sysconfig.get_path(key)).rglob("*.py")})[::EVERY]


def expected(source):
    """(begin, end) bytes of every function, from `def` or `async def` to the end of its last statement."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append((starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset))
    return sorted(found)


def parsed(path):
    source = pathlib.Path(path).read_bytes()
    if source.startswith(b"\xef\xbb\xbf") or b"\f" in source or b"\r" in source:
        return None  # positions of the two differ by what a line is
    try:
        source.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return expected(source)
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return None  # kept by packages to test their parsers


chosen = [(path, functions) for path in paths if (functions := parsed(path)) is not None]
output = subprocess.run([sys.argv[1]], input="\n".join(path for path, _ in chosen), capture_output=True, text=True, check=True)
lines = output.stdout.splitlines()
assert len(lines) == len(chosen)
compared = wrong = 0
for (path, functions), line in zip(chosen, lines):
    actual = None if line == "refused" else [tuple(map(int, pair.split(":"))) for pair in line.split()]
    compared += len(functions)
    if actual != functions:
        wrong += 1
        missing, extra = set(functions) - set(actual or ()), set(actual or ()) - set(functions)
        print(f"{path}: missing {sorted(missing)[:3]}, not Python's {sorted(extra)[:3]}{', refused' if actual is None else ''}")
print(f"{compared} functions of {len(chosen)} files compared, {wrong} files differ")
sys.exit(wrong > 0 or compared < 1000)
