"""The command line as a user meets it: real processes, real files. Usage: cli_test.py PROGRAM"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import PROGRAM, RECIPE, SOURCE, ProgramTest  # noqa: E402


class CommandLine(ProgramTest):
    def test_train_eval_predict_and_export(self):
        out = self.train().stdout
        self.assertRegex(out, r"step 60/60  loss \d+\.\d+  acc")
        summary = json.loads((self.path / "run/summary.json").read_text())
        self.assertGreater(summary["metric"]["value"], 0.9)
        self.assertLess(summary["baseline_metric"], 0.7)
        for key in ("parameters", "compression", "step_seconds", "peak_bytes", "ranks"):
            self.assertIn(key, summary)
        self.assertGreater(summary["peak_bytes"], 0)

        result = json.loads(self.run_comera("eval", "run/last.ckpt", "--json").stdout)
        self.assertEqual(result["accuracy"]["value"], summary["metric"]["value"])
        again = json.loads(self.run_comera("eval", "run/last.ckpt", "dev.tsv", "--json", "--batch-size", "7").stdout)
        self.assertEqual(result["accuracy"], again["accuracy"])
        self.assertIn("baseline", self.run_comera("eval", "run/last.ckpt").stdout)

        lines = self.run_comera("predict", "run/last.ckpt", "-", input="w1 great fine\nw2 awful dull\n").stdout.splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], ["good", "bad"])
        parsed = json.loads(self.run_comera("predict", "run/last.ckpt", "--json", "--top", "2", input="great\n").stdout)
        self.assertEqual(len(parsed["predictions"]), 2)

        self.export_and_rebuild()

    def export_and_rebuild(self):
        try:
            from safetensors import safe_open
            from safetensors.torch import load_file
        except ImportError:
            if os.environ.get("CI") == "true":
                raise
            self.skipTest("the Python package safetensors is not installed")
        import torch
        self.run_comera("export", "run/last.ckpt", "factored.safetensors")
        self.run_comera("export", "run/last.ckpt", "dense.safetensors", "--format", "dense")
        factored, dense = load_file(self.path / "factored.safetensors"), load_file(self.path / "dense.safetensors")
        with safe_open(self.path / "factored.safetensors", "pt") as file:
            layers = json.loads(file.metadata()["layers"])
        self.assertFalse([name for name in factored if ".scales." in name])
        checked = 0
        for layer in layers:
            if layer["format"] != "tt":
                continue
            name, (rows, cols) = layer["name"], layer["digits"]
            w = torch.ones(1, 1)
            for k in range(len(rows) + len(cols)):
                core = factored[f"{name}.cores.{k}"]
                w = torch.einsum("xr,rsq->xsq", w, core).reshape(-1, core.shape[-1])
            w = w.reshape(dense[f"{name}.weight"].shape[::-1]).t()
            torch.testing.assert_close(w, dense[f"{name}.weight"], rtol=1e-4, atol=1e-6)
            checked += 1
        self.assertEqual(checked, 12)

    def test_checkpoints_of_the_first_version_are_read_for_ever(self):
        kept = str(SOURCE / "tests/fixtures/checkpoints/run-v1.ckpt")
        out = self.run_comera("predict", kept, "--json", "--top", "2", input="w1 great fine\nw2 awful dull\n").stdout
        best = [json.loads(line)["predictions"][0] for line in out.splitlines()]
        self.assertEqual([b["label"] for b in best], ["good", "bad"])
        for found, expected in zip(best, (0.99943560, 0.99950861)):
            self.assertAlmostEqual(found["probability"], expected, places=5)
        self.assertEqual(json.loads(self.run_comera("eval", kept, "dev.tsv", "--json").stdout)["accuracy"]["value"], 1)
        # What a run needs to go on is there too: moments, ranks, the loader's place.
        (self.path / "run").mkdir()
        (self.path / "run/last.ckpt").write_bytes(pathlib.Path(kept).read_bytes())
        self.train("--resume", "--target-parameters", "2k", "--set", "rank.early_end=0.3", "--set", "rank.cut_every=10",
                   "--set", "train.steps=200")

    def test_interrupt_saves_and_resume_goes_on(self):
        whole = self.run_comera("train", "small.toml", "--out", "whole", "--set", "train.steps=400")
        process = subprocess.Popen([PROGRAM, "train", "small.toml", "--out", "run", "--set", "train.steps=400"],
                                   cwd=self.path, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("step 30/"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
        self.assertEqual(process.wait(), 130)
        self.assertIn("--resume", rest)
        self.train("--resume", "--set", "train.steps=400")
        bytes_of = lambda name: [l for l in (self.path / name / "metrics.csv").read_text().splitlines()]
        losses = lambda name: [line.split(",")[1] for line in bytes_of(name)]
        self.assertEqual(losses("whole"), losses("run"))
        self.assertIn("step 400/400", whole.stdout)

    def test_kill_at_any_moment_leaves_a_checkpoint_that_loads(self):
        rng = random.Random(2)
        words = [PROGRAM, "train", "small.toml", "--out", "run", "--set", "train.steps=2000", "--set", "train.save_every=1"]
        process = subprocess.Popen(words, cwd=self.path, stdout=subprocess.DEVNULL)
        checkpoint = self.path / "run/last.ckpt"
        while not checkpoint.exists():
            time.sleep(0.01)
        for _ in range(6):
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
            process.wait()
            self.run_comera("eval", "run/last.ckpt")
            process = subprocess.Popen(words + ["--resume"], cwd=self.path, stdout=subprocess.DEVNULL)
            time.sleep(1.0)
        process.kill()
        process.wait()

    def test_dry_run_gives_the_agreed_keys(self):
        result = json.loads(self.train("--dry-run", "--json").stdout)
        self.assertEqual(set(result["parameters"]), {"total", "cores", "rank_scales", "other", "dense_total"})
        for key in ("name", "format", "digits", "ranks", "parameters", "dense_parameters"):
            self.assertIn(key, result["layers"][0])
        self.assertGreater(result["compression"], 1)
        self.assertIn("encoder.1.ffn.down", self.train("--dry-run").stdout)
        self.assertFalse((self.path / "run").exists())

    def test_overfit_batch(self):
        self.train("--overfit-batch", "--set", "train.steps=120", "--set", "rank.adapt=false")
        last = json.loads((self.path / "run/metrics.jsonl").read_text().splitlines()[-1])
        self.assertLess(last["loss"], 0.05)

    def test_target_is_kept(self):
        self.train("--target-parameters", "1k", "--set", "rank.early_end=0.3", "--set", "rank.cut_every=10")
        summary = json.loads((self.path / "run/summary.json").read_text())
        self.assertLessEqual(summary["parameters"]["cores"] + summary["parameters"]["rank_scales"], 1000)

    def test_mistakes_are_one_line_with_a_remedy(self):
        self.refused("train", "none.toml", says="none.toml: cannot open")
        self.refused("train", "small.toml", "--set", "model.layer=3", says="did you mean 'model.layers'?")
        self.refused("train", "small.toml", "--set", "data.train=none.tsv", says="none.tsv")
        self.refused("train", "small.toml", "--target-parameters", "10", says="smallest")
        self.refused("train", "small.toml", "--set", 'data.labels=["bad", "other"]', says="train.tsv:")
        self.refused("eval", "small.toml", says="small.toml")
        self.refused("predict", "none.ckpt", says="none.ckpt")
        self.refused("train", "small.toml", "--target-parameters", "0.4", says="--target-parameters 0.4: give a whole number, 1 or more")
        self.refused("train", "small.toml", "--target-parameters", "2k", "--set", "rank.adapt=false", says="rank.adapt")
        (self.path / "empty.toml").write_text("# nothing\n")
        self.refused("train", "empty.toml", says="sets nothing")
        (self.path / "train.tsv").write_text("")
        self.refused("train", "small.toml", says="train.tsv")
        (self.path / "train.tsv").write_text("text\tlabel\nx\tgood\n")
        self.refused("train", "small.toml", says="sentence")
        (self.path / "train.tsv").write_bytes(b"sentence\tlabel\nok\tgood\n\xff\xfe\tbad\n")
        self.refused("train", "small.toml", says="train.tsv:3")
        self.write_data()
        (self.path / "small.toml").write_text(RECIPE.replace('match = "encoder.*"', 'match = "encodr.*"'))
        self.refused("train", "small.toml", "--set", "data.cache=other", says="no layer matches 'encodr.*'")
        self.assertFalse((self.path / "other").exists(), "found before data is prepared")
        (self.path / "small.toml").write_text(RECIPE.replace("ranks = 6", "ranks = [6, 6, 6, 6, 6]", 1))
        self.refused("train", "small.toml", says="ranks")

    def test_an_earlier_run_is_kept_and_a_second_one_refused(self):
        self.train("--set", "train.steps=3")
        self.train("--set", "train.steps=4")
        steps = [json.loads((self.path / "run" / part / "summary.json").read_text())["steps"] for part in ("previous", ".")]
        self.assertEqual(steps, [3, 4])
        before = (self.path / "run/summary.json").read_bytes()
        self.train("--set", "train.steps=4", "--resume")  # nothing is left to do
        self.assertEqual((self.path / "run/summary.json").read_bytes(), before)
        process = subprocess.Popen([PROGRAM, "train", "small.toml", "--out", "busy", "--set", "train.steps=100000"],
                                   cwd=self.path, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        while not (self.path / "busy/metrics.csv").exists():
            time.sleep(0.05)
        self.refused("train", "small.toml", "--out", "busy", says="another run is writing here")
        process.send_signal(signal.SIGHUP)  # a terminal that closes
        process.stdout.read()
        process.wait()
        self.assertTrue((self.path / "busy/last.ckpt").exists())

    def test_nothing_is_lost_by_an_unlucky_end(self):
        kept = pathlib.Path(SOURCE / "tests/fixtures/checkpoints/run-v1.ckpt").read_bytes()
        (self.path / "x.ckpt").write_bytes(kept)
        self.refused("export", "x.ckpt", "x.ckpt", says="the checkpoint itself")
        self.refused("export", "x.ckpt", ".", says="not a regular file")
        self.assertEqual((self.path / "x.ckpt").read_bytes(), kept)
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "predict", "x.ckpt"], cwd=self.path, input="great\n" * 100, text=True,
                                  stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not all of the output could be written", done.stderr)
        # A loss that explodes stops the run; what was learned until then is kept.
        wild = ("--set", "train.clip=0", "--set", "train.learning_rate=1e30", "--set", "train.warmup=0")
        self.refused("train", "small.toml", "--out", "wild", *wild, says="lower train.learning_rate")
        self.assertTrue((self.path / "wild/last.ckpt").exists())
        self.refused("train", "small.toml", "--out", "one", *wild, "--set", "train.steps=1", says="lower train.learning_rate")
        self.assertFalse((self.path / "one/best.ckpt").exists())

    def test_a_copy_of_the_data_is_the_same_data(self):
        self.train("--set", "train.steps=5", "--set", "train.save_every=3")
        text = (self.path / "train.tsv").read_text()
        (self.path / "copy.tsv").write_text(text)
        os.utime(self.path / "train.tsv", (0, 0))
        hashes = []
        for name in ("train.tsv", "copy.tsv"):
            self.train("--set", "train.steps=1", "--set", f"data.train={name}")
            hashes.append(json.loads((self.path / "run/summary.json").read_text())["data"]["train_hash"])
        (self.path / "train.tsv").write_text(text.replace("w1", "w2"))
        os.utime(self.path / "train.tsv", (0, 0))  # same size, same time, other content
        self.train("--set", "train.steps=1")
        hashes.append(json.loads((self.path / "run/summary.json").read_text())["data"]["train_hash"])
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])

    def test_help_and_doctor(self):
        text = self.run_comera("train", "--help").stdout
        for part in ("[model]", "model.layers", "default", "--resume", "learning_rate", "[[layers]]"):
            self.assertIn(part, text)
        found = json.loads(self.run_comera("doctor", "--json").stdout)
        for key in ("torch", "abi", "cuda", "instruction_sets", "threads", "memory_bytes"):
            self.assertIn(key, found)
        self.assertEqual(subprocess.run([PROGRAM], capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
