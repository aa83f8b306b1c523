"""Planned TT layers beside what a Python user has: opt_einsum on each contraction alone, and tensorly-torch's linear
layer. Forward and all gradients, a turn of each, medians; geometric-mean speed-ups by size class.

    pip install opt_einsum tensorly-torch
    python bench/plan.py [--profile .cache/comera/profile-....json] [--rounds 5] [--threads 2]

tensorly-torch's tensor trains pair an input with an output digit in each core; its rank is chosen so that it has as
many parameters. It makes its path once with torch's own optimiser of paths; autograd derives its backward.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import opt_einsum
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = {
    "reference": [((12, 8, 8), (8, 8, 12), (12, 30, 30, 30, 12)), ((12, 8, 8), (12, 16, 16), (12, 30, 30, 30, 16)),
                  ((12, 8, 8), (8, 8, 12), (12, 15, 15, 15, 12)), ((12, 8, 8), (8, 8, 12), (4, 4, 4, 4, 4))],
    "1024 wide": [((32, 32), (32, 32), (32, 32, 32)), ((16, 8, 8), (8, 8, 16), (16, 16, 16, 16, 16)),
                  ((8, 8, 4, 4), (4, 4, 8, 8), (8, 16, 16, 16, 16, 16, 8))],
    "4096 wide": [((64, 64), (64, 64), (64, 64, 64)), ((16, 16, 16), (16, 16, 16), (16, 32, 32, 32, 16))],
}
TOKENS = (1, 16, 256, 4096)
LONGEST = 3.0  # seconds of one call; slower peers are left out of a geometry


class Comera:
    def __init__(self, options):
        command = [str(options.program), "--serve", "--threads", str(options.threads)]
        if options.profile:
            command += ["--profile", options.profile]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_WAIT_POLICY": "passive"})

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def layer(self, digits_in, digits_out, ranks, tokens):
        words = [",".join(map(str, part)) for part in (digits_in, digits_out, ranks)]
        self.ask(f"layer {' '.join(words)} {tokens}")
        return lambda: self.ask("run")["seconds"]


def each_alone(digits_in, digits_out, ranks, tokens):
    """Y and every gradient as an expression of its own, each with its best path."""
    modes, bonds = digits_in + digits_out, (1,) + ranks + (1,)
    cores = [torch.randn(bonds[k], mode, bonds[k + 1]) for k, mode in enumerate(modes)]
    symbol = opt_einsum.get_symbol
    b, places, inner = symbol(0), [symbol(1 + k) for k in range(len(modes))], [symbol(50 + k) for k in range(len(bonds))]
    split = len(digits_in)
    leaves = [(b + "".join(places[:split]), torch.randn(tokens, *digits_in))]
    leaves += [(inner[k] + places[k] + inner[k + 1], cores[k]) for k in range(len(modes))]
    leaves += [(b + "".join(places[split:]), torch.randn(tokens, *digits_out))]
    calls = []
    for left_out in range(len(leaves)):
        others = [leaf for i, leaf in enumerate(leaves) if i != left_out]
        equation = ",".join(text for text, _ in others) + "->" + leaves[left_out][0]
        # The borders' bonds of size 1 are on one core only; they are summed or, in its gradient, made again.
        missing = [c for c in leaves[left_out][0] if c not in equation.split("->")[0]]
        equation = equation.split("->")[0] + "->" + "".join(c for c in leaves[left_out][0] if c not in missing)
        shapes = [value.shape for _, value in others]
        calls.append((opt_einsum.contract_expression(equation, *shapes, optimize="dp"), [v for _, v in others]))

    def run():
        start = time.perf_counter()
        with torch.no_grad():
            for expression, operands in calls:
                expression(*operands)
        return time.perf_counter() - start
    return run


def tensorly_linear(digits_in, digits_out, ranks, tokens):
    if len(digits_in) != len(digits_out):
        return None
    import tltorch
    modes, bonds = digits_in + digits_out, (1,) + ranks + (1,)
    wanted = sum(bonds[k] * mode * bonds[k + 1] for k, mode in enumerate(modes))

    def size(rank):
        pairs = [a * c for a, c in zip(digits_in, digits_out)]
        inner = (1,) + (rank,) * (len(pairs) - 1) + (1,)
        return sum(inner[k] * pair * inner[k + 1] for k, pair in enumerate(pairs))
    rank = min(range(1, 257), key=lambda r: abs(size(r) - wanted))
    layer = tltorch.FactorizedLinear(digits_in, digits_out, bias=False, factorization="blocktt", rank=rank,
                                     implementation="factorized")
    x = torch.randn(tokens, math.prod(digits_in), requires_grad=True)
    dy = torch.randn(tokens, math.prod(digits_out))
    inputs = [x, *layer.parameters()]

    def run():
        start = time.perf_counter()
        torch.autograd.grad(layer(x), inputs, dy)
        return time.perf_counter() - start
    return run


def main():
    # As the program has it: freed blocks are used again, so that no page is touched for the first time in a turn.
    memory = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    if any(os.environ.get(name) != value for name, value in memory.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **memory, "OMP_WAIT_POLICY": "passive"})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/bench/bench_plan")
    parser.add_argument("--profile", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    comera = Comera(options)
    print(f"torch {torch.__version__}, opt_einsum {opt_einsum.__version__}, {options.threads} threads; ms, forward + backward")
    print(f"{'layer':<46} {'tokens':>6} {'comera':>9} {'opt_einsum':>11} {'tensorly':>9}")
    for name, layers in LAYERS.items():
        ratios = {"opt_einsum": [], "tensorly": []}
        for layer in layers:
            for tokens in TOKENS:
                runs = {"comera": comera.layer(*layer, tokens), "opt_einsum": each_alone(*layer, tokens),
                        "tensorly": tensorly_linear(*layer, tokens)}
                # A first call of each: what it sets up, and whether it is worth more.
                runs = {peer: run for peer, run in runs.items() if run and run() < LONGEST}
                seconds = {peer: [] for peer in runs}
                for _ in range(options.rounds):
                    for peer, run in runs.items():
                        seconds[peer].append(min(run() for _ in range(3)))
                medians = {peer: statistics.median(values) for peer, values in seconds.items()}
                for peer in ratios:
                    if peer in medians:
                        ratios[peer].append(medians[peer] / medians["comera"])
                shape = "{} x {} ranks {}".format(*(",".join(map(str, part)) for part in layer))
                cells = [f"{1e3 * medians[peer]:.3f}" if peer in medians else "-" for peer in ("comera", "opt_einsum", "tensorly")]
                print(f"{shape:<46} {tokens:>6} {cells[0]:>9} {cells[1]:>11} {cells[2]:>9}", flush=True)
        means = {peer: statistics.geometric_mean(values) for peer, values in ratios.items() if values}
        print(f"{name}: geometric mean speed-up " + ", ".join(f"{mean:.2f} over {peer}" for peer, mean in means.items()))


if __name__ == "__main__":
    main()
