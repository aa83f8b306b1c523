"""A folder with a small data set and a recipe, and the program run in it as a user would."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
SOURCE = pathlib.Path(os.environ.get("COMERA_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
WORDS = {"good": ["fine", "great", "lovely"], "bad": ["poor", "dull", "awful"]}
FILLER = [f"w{i}" for i in range(40)]

RECIPE = """
[model]
layers = 2
width = 16
heads = 2
ffn = 32
positions = 16
segments = 0
norm = "pre"
norm_epsilon = 1e-5
pooling = "mean"
pooler = false
table_std = 1.0
[data]
source = "sst2"
train = "train.tsv"
validation = "dev.tsv"
labels = ["bad", "good"]
max_length = 16
tokenizer = "wordpiece"
vocabulary = "vocabulary.txt"
cache = "cache"
[train]
steps = 60
batch_size = 16
learning_rate = 5e-3
log_every = 1
threads = 1
[[layers]]
match = "embedding.word"
format = "compressed"
digits = 2
ranks = 6
[[layers]]
match = "encoder.*"
format = "compressed"
digits = 2
ranks = 6
"""


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.write_data()
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + FILLER + sum(WORDS.values(), [])
        (self.path / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n")
        (self.path / "small.toml").write_text(RECIPE)

    def write_data(self):
        rng = random.Random(1)
        for name, rows in (("train", 400), ("dev", 80)):
            lines = ["sentence\tlabel"]
            for _ in range(rows):
                label = rng.choice(sorted(WORDS))
                words = [rng.choice(FILLER) for _ in range(5)] + [rng.choice(WORDS[label]) for _ in range(2)]
                rng.shuffle(words)
                lines.append(" ".join(words) + "\t" + label)
            (self.path / f"{name}.tsv").write_text("\n".join(lines) + "\n")

    def tearDown(self):
        self.folder.cleanup()

    def run_comera(self, *words, status=0, **options):
        done = subprocess.run([PROGRAM, *words], cwd=self.path, capture_output=True, text=True, timeout=300, **options)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def refused(self, *words, says):
        """Exit status 1 and one line on stderr that says what to do."""
        done = self.run_comera(*words, status=1)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def train(self, *words):
        return self.run_comera("train", "small.toml", "--out", "run", *words)
