"""Faults people met in the program, one test each. Usage: program_faults.py PROGRAM"""
import json
import pathlib
import re
import select
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import PROGRAM, RECIPE, SOURCE, ProgramTest  # noqa: E402

KEPT = SOURCE / "tests/fixtures/checkpoints/run-v1.ckpt"
PAIRS = RECIPE.replace('source = "sst2"', 'source = "table"\ntext = ["first", "second"]\nlabel = "label"')


class ProgramFaults(ProgramTest):
    def test_a_dry_run_tells_what_training_would_stop_at(self):
        def problems(*words):
            return " ".join(json.loads(self.train("--dry-run", "--json", *words).stdout)["problems"])

        self.assertEqual(problems(), "")
        self.assertIn("smallest model", problems("--target-parameters", "10"))
        self.assertIn("none.txt: there is no such file", problems("--set", "data.vocabulary=none.txt"))
        self.assertIn("none.tsv: there is no such file", problems("--set", "data.train=none.tsv"))
        self.assertIn("train.device", problems("--device", "cuda:77"))
        self.assertIn("train.device", problems("--device", "tpu"))
        table = self.train("--dry-run", "--set", "data.labels=[]", "--set", "data.train=none.tsv").stdout
        self.assertIn("note: 24 classes are assumed", table)
        self.assertIn("training would stop at: none.tsv", table)

    def test_what_cannot_be_is_said_before_data_is_prepared(self):
        for words, says in ((("--device", "tpu"), "train.device"), (("--device", "cuda:77"), "train.device"),
                            (("--set", "rank.early_end=0.1"), "rank.early_end"),
                            (("--set", "data.validation=none.tsv"), "data.validation"),
                            (("--set", "train.batch_size=1099511627776"), "from 1 to"),
                            (("--set", "model.layers=99999"), "from 0 to"),
                            (("--set", 'train.steps="1.5"'), "not a whole number"),
                            (("--threads", "-4"), "--threads"), (("--threads", "100000"), "--threads")):
            done = self.run_comera("train", "small.toml", *words, status=1)
            self.assertIn(says, done.stderr)
            self.assertFalse((self.path / "cache").exists(), words)

    def test_a_rank_of_zero_needs_leave_to_die(self):
        (self.path / "small.toml").write_text(RECIPE.replace("ranks = 6", "ranks = 0"))
        self.refused("train", "small.toml", says="rank.may_die")
        (self.path / "small.toml").write_text(RECIPE.replace("ranks = 6", "ranks = [6, 0, 6]"))
        self.refused("train", "small.toml", says="rank.may_die")

    def test_deep_recipes_are_refused_and_comments_are_not_counted(self):
        (self.path / "deep.toml").write_text("a" + ".a" * 400_000 + " = 1\n")
        self.refused("train", "deep.toml", says="deep.toml:1: more than 256 dots")
        self.refused("train", "small.toml", "--set", "a" + ".a" * 30_000 + "=1", says="dots")
        (self.path / "deep.toml").write_text("a = " + "[" * 100_000)
        self.refused("train", "deep.toml", says="deep.toml:1")
        (self.path / "small.toml").write_text(RECIPE + "# " + "[" * 500 + "\n")
        self.train("--dry-run")

    def test_an_unknown_command_is_named(self):
        self.refused("trian", says="there is no command 'trian'; did you mean 'train'?")
        self.refused("xyzzy", says="the commands are train")

    def test_a_pipe_gets_an_answer_to_each_line(self):
        process = subprocess.Popen([PROGRAM, "predict", KEPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for text, label in ((b"w1 great fine\n", b"good"), (b"w2 awful dull\n", b"bad")):
            process.stdin.write(text)
            process.stdin.flush()
            self.assertTrue(select.select([process.stdout], [], [], 60)[0], "no answer")
            self.assertTrue(process.stdout.readline().startswith(label))
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        process.stdout.close()

    def test_lines_before_a_bad_one_are_answered(self):
        (self.path / "lines.txt").write_bytes(b"great fine\ndull\n\xff\xfe\ngreat\n")
        done = self.run_comera("predict", str(KEPT), "lines.txt", status=1)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("lines.txt:3: invalid UTF-8", done.stderr)
        self.refused("predict", str(KEPT), "small.tab", says="small.tab: cannot open")
        done = self.run_comera("predict", str(KEPT), status=1, input="great\tfine\n")
        self.assertIn("stdin:1: has a tab", done.stderr)

    def test_models_of_pairs_take_pairs_only(self):
        for name in ("train", "dev"):
            lines = (self.path / f"{name}.tsv").read_text().splitlines()[1:]
            rows = ["first,second,label"] + [f"w1,{l}".replace("\t", ",") for l in lines]
            (self.path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        text = PAIRS.replace(".tsv", ".csv")  # segments = 0: that decides nothing about pairs
        (self.path / "small.toml").write_text(text.replace('labels = ["bad", "good"]', ""))
        # A label may hold what would break a line of output.
        for name in ("train", "dev"):
            path = self.path / f"{name}.csv"
            path.write_text(re.sub(",bad$", ',"b\ta\nd"', path.read_text(), flags=re.M))
        self.train("--set", "train.steps=3")
        out = self.run_comera("predict", "run/last.ckpt", "--top", "2", input="w1\tgreat\nw1\tdull\n").stdout
        self.assertEqual(len(out.splitlines()), 2)
        self.assertIn("b\\ta\\nd", out)
        done = self.run_comera("predict", "run/last.ckpt", status=1, input="w1\tgreat\nonly one\n")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn("stdin:2: has 0 tabs", done.stderr)

    def test_values_that_are_not_finite_are_not_used(self):
        for rate in ("1e30", "1e300"):  # finite values whose products are not, and values that are not
            wild = ("--set", "train.clip=0", "--set", f"train.learning_rate={rate}", "--set", "train.warmup=0")
            self.run_comera("train", "small.toml", "--out", "run", *wild, "--set", "train.steps=1", status=1)
            done = self.run_comera("eval", "run/last.ckpt", status=1)
            self.assertRegex(done.stderr, "^comera: run/last.ckpt: .*not finite")
            done = self.run_comera("predict", "run/last.ckpt", status=1, input="great fine\n")
            self.assertRegex(done.stderr, "^comera: run/last.ckpt: .*not finite")

    def test_resume_goes_on_with_what_it_had_or_says_why_not(self):
        self.train("--set", "train.steps=4", "--set", "train.save_every=2")
        dev = (self.path / "dev.tsv").read_text()
        (self.path / "dev.tsv").write_text(dev + "w1\tgood\n")
        self.refused("train", "small.toml", "--out", "run", "--resume", "--set", "train.steps=4",
                     "--set", "train.save_every=2", says="held-out data is not the one")
        (self.path / "dev.tsv").write_text(dev)
        self.train("--resume", "--set", "train.steps=4", "--set", "name=another")

    def test_an_empty_text_file_is_named(self):
        (self.path / "a.txt").write_text("")
        text = RECIPE.replace('source = "sst2"', 'source = "text"').replace("train.tsv", "a.txt").replace("dev.tsv", "a.txt")
        text = text.replace('labels = ["bad", "good"]\n', "").replace("[model]\n", '[model]\nhead = "next_token"\n')
        (self.path / "small.toml").write_text(text)
        self.refused("train", "small.toml", says="a.txt")

    def test_an_interrupt_while_data_is_prepared_ends_at_once(self):
        rows = "".join(f"{'w1 great ' * 20}\tgood\n{'w2 dull ' * 20}\tbad\n" for _ in range(400_000))
        (self.path / "train.tsv").write_text("sentence\tlabel\n" + rows)
        process = subprocess.Popen([PROGRAM, "train", "small.toml"], cwd=self.path, stdout=subprocess.PIPE)
        process.stdout.readline()  # preparing
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), -signal.SIGINT)
        process.stdout.close()
        self.assertFalse((self.path / "runs").exists())

    def test_compare_needs_something_to_compare(self):
        (self.path / "small.toml").write_text(RECIPE[:RECIPE.index("[[layers]]")])
        self.refused("compare", "small.toml", says="no [[layers]]")


if __name__ == "__main__":
    unittest.main(verbosity=2)
