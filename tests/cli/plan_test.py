"""`comera plan` and `comera doctor --profile` as a user meets them. Usage: plan_test.py PROGRAM"""
import json
import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import ProgramTest  # noqa: E402

LAYER = ("plan", "--in", "12,8,8", "--out", "8,8,12", "--ranks", "12,30,30,30,12")
RECIPE = """
[model]
layers = 2
width = 64
heads = 2
ffn = 128
positions = 16
segments = 0
[data]
source = "sst2"
train = "train.tsv"
labels = ["bad", "good"]
max_length = 16
vocabulary_size = 500
[train]
batch_size = 8
[[layers]]
match = "embedding.word"
format = "compressed"
digits = 3
ranks = 6
[[layers]]
match = "encoder.*.ffn.*"
format = "compressed"
digits = "auto"
parameters = "2k"
[[layers]]
match = "encoder.*"
format = "compressed"
digits = 2
ranks = 6
[[layers]]
match = "pooler"
format = "compressed"
digits = 2
ranks = 6
"""


class Plan(ProgramTest):
    def json(self, *words):
        return json.loads(self.run_comera(*words, "--json").stdout)

    def test_a_layer(self):
        text = self.run_comera(*LAYER, "--tokens", "4096", "--svg", "tree.svg").stdout
        for part in ("tree ", "multiply-adds", "two groups", "core by core", "W rebuilt", "each alone", "dense",
                     "a usual machine"):
            self.assertIn(part, text)
        self.assertTrue(xml.etree.ElementTree.parse(self.path / "tree.svg").getroot().tag.endswith("svg"))
        plan = self.json(*LAYER, "--tokens", "4096")
        self.assertEqual(plan["total_multiply_adds"], plan["forward"] + plan["backward"])
        self.assertEqual(set(plan["alternatives"]), {"two groups", "core by core", "W rebuilt", "each alone", "dense"})
        for key in ("peak_bytes", "saved_bytes", "predicted_seconds", "dense_speed_up"):
            self.assertGreater(plan[key], 0)
        self.assertEqual(plan["alternatives"]["dense"]["total_multiply_adds"], 3 * 4096 * 768 * 768)

    def test_objectives_and_limits(self):
        adds = self.json(*LAYER, "--tokens", "44", "--objective", "multiply_adds")
        self.assertEqual(adds["total_multiply_adds"], min(
            [adds["total_multiply_adds"]] + [other["total_multiply_adds"] for other in adds["alternatives"].values()]))
        free = self.json(*LAYER, "--tokens", "4096")
        small = self.json(*LAYER, "--tokens", "4096", "--objective", "memory")
        self.assertLess(small["peak_bytes"], free["peak_bytes"])
        limit = (small["peak_bytes"] + free["peak_bytes"]) // 2
        self.assertLessEqual(self.json(*LAYER, "--tokens", "4096", "--memory-limit", str(limit))["peak_bytes"], limit)
        forward = self.json(*LAYER, "--results", "forward")
        self.assertEqual(forward["backward"], 0)
        self.assertEqual(self.json(*LAYER, "--dtype", "float64")["request"]["dtype"], "float64")

    def test_a_recipe(self):
        (self.path / "small.toml").write_text(RECIPE)
        found = self.json("plan", "small.toml")
        names = [name for layer in found["layers"] for name in layer["names"]]
        self.assertEqual(len(names), 2 * 6 + 1)
        tokens = {name: layer["request"]["tokens"] for layer in found["layers"] for name in layer["names"]}
        self.assertEqual(tokens["encoder.0.ffn.up"], 8 * 16)
        self.assertEqual(tokens["pooler"], 8)
        self.assertEqual(found["tables"][0]["names"], ["embedding.word"])
        self.assertGreater(found["predicted_seconds"], 0)
        up = next(layer for layer in found["layers"] if "encoder.0.ffn.up" in layer["names"])["request"]["layers"][0]
        sizes, ranks = up["in"] + up["out"], up["ranks"]
        count = sum(ranks[k] * sizes[k] * ranks[k + 1] for k in range(len(sizes))) + sum(ranks[1:-1])
        self.assertTrue(1000 < count <= 2000, "the advisor fills the budget")
        text = self.run_comera("plan", "small.toml").stdout
        self.assertIn("encoder.0.attention.query and 7 like it", text)
        self.assertIn("rows looked up", text)
        dry = self.json("train", "small.toml", "--dry-run")
        self.assertGreater(dry["predicted_step_seconds"], 0)
        self.assertIn("predicted", self.run_comera("train", "small.toml", "--dry-run").stdout)

    def test_advice(self):
        found = self.json("plan", "--advise", "--in-width", "768", "--out-width", "768", "--parameters", "20k")["suggestions"]
        self.assertTrue(found)
        sizes = [one["parameters"] for one in found]
        self.assertEqual(sizes, sorted(sizes))
        self.assertLessEqual(sizes[-1], 20000)
        self.assertIn("middle rank", self.run_comera("plan", "--advise", "--in-width", "64", "--out-width", "48",
                                                     "--microseconds", "5000").stdout)

    def test_mistakes_are_one_line_with_a_remedy(self):
        layer = ("plan", "--in", "12,8", "--out", "8,12")
        self.refused("plan", says="--in 12,8,8")
        self.refused(*layer, "--ranks", "3,4", says="ranks")
        self.refused(*layer, "--ranks", "2,3,4,5,6,7", says="ranks")
        self.refused("plan", "--in", "12,0", "--out", "8,12", "--ranks", "4", says="0")
        self.refused("plan", "--in", "12,x", "--out", "8,12", "--ranks", "4", says="--in 12,8,8")
        self.refused("plan", "--in", "12,,8", "--out", "8,12", "--ranks", "4", says="--in 12,8,8")
        self.refused("plan", "--in", "3000000000,3000000000", "--out", "4,4", "--ranks", "2", says="2^63")
        self.refused(*layer, "--ranks", "4", "--tokens", "0", says="tokens")
        self.refused(*layer, "--ranks", "4", "--tokens", "4000000000000000000", says="2^63")
        self.refused(*layer, "--ranks", "4", "--memory-limit", "1kB", says="smallest memory limit that one meets is")
        self.refused(*LAYER, "--memory-limit", "much", says="64MB")
        self.refused(*layer, "--ranks", "4", "--objective", "speed", says="time")
        self.refused(*layer, "--ranks", "4", "--dtype", "int8", says="float32")
        self.refused(*layer, "--ranks", "4", "--results", "some", says="forward")
        self.refused("plan", "none.toml", says="none.toml: cannot open")
        self.refused("plan", "--advise", "--in-width", "768", "--out-width", "768", says="budget")
        self.refused("plan", "--advise", "--in-width", "768", "--out-width", "768", "--parameters", "10", says="smallest")
        (self.path / "small.toml").write_text(RECIPE.replace('parameters = "2k"', ""))
        self.refused("plan", "small.toml", says="parameters together")

    def test_the_profile_is_measured_kept_and_used(self):
        found = self.json("doctor", "--profile", "--seconds", "0.1")
        file = self.path / found["file"]
        self.assertTrue(file.exists())
        self.assertGreater(found["copy_bytes_per_second"], 0)
        self.assertTrue(self.json(*LAYER)["profile"]["measured"])
        self.assertIn("measured profile", self.run_comera(*LAYER).stdout)
        file.write_text(file.read_text()[:1000])
        done = self.run_comera(*LAYER, "--json")
        self.assertFalse(json.loads(done.stdout)["profile"]["measured"])
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertIn("warning", done.stderr)
        self.run_comera("doctor", "--profile", "--seconds", "0.1")
        self.assertTrue(self.json(*LAYER)["profile"]["measured"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
