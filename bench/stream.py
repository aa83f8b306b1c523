"""Memory while data is prepared from a file far larger than it: writes one, trains one step on it, prints the peak.

    python bench/stream.py [--gigabytes 2] [--folder DIR]

The peak is that of the whole process, torch included; what torch alone takes is printed beside it.
"""
import argparse
import os
import pathlib
import random
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/comera"
RECIPE = """
[model]
layers = 1
width = 32
heads = 2
ffn = 64
positions = 32
segments = 0
[data]
source = "sst2"
train = "train.tsv"
labels = ["bad", "good"]
max_length = 32
tokenizer = "wordpiece"
vocabulary = "vocabulary.txt"
cache = "cache"
[train]
steps = 1
[[layers]]
match = "encoder.*"
format = "low_rank"
ranks = 4
"""


def write_rows(path, size):
    rng = random.Random(1)
    words = [f"w{i}" for i in range(500)]
    block = "".join(" ".join(rng.choices(words, k=rng.randint(3, 40))) + f"\t{rng.choice(('good', 'bad'))}\n"
                    for _ in range(20_000))
    with open(path, "w") as file:
        file.write("sentence\tlabel\n")
        while file.tell() < size:
            file.write(block)


def peak_of(words, folder):
    process = subprocess.Popen([PROGRAM, *words], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{words} failed"
    return usage.ru_maxrss / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--folder", help="where there is room for the file and its prepared form [a temporary one]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        (folder / "recipe.toml").write_text(RECIPE)
        (folder / "vocabulary.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] +
                                                         [f"w{i}" for i in range(500)]) + "\n")
        write_rows(folder / "train.tsv", options.gigabytes * 1e9)
        size = (folder / "train.tsv").stat().st_size
        idle = peak_of(["doctor"], folder)
        start = time.monotonic()
        peak = peak_of(["train", "recipe.toml", "--out", "run"], folder)
        seconds = time.monotonic() - start
        print(f"{size / 1e9:.2f} GB prepared and one step trained in {seconds:.0f} s; peak {peak:.0f} MB, "
              f"of which torch alone {idle:.0f} MB")


if __name__ == "__main__":
    main()
