"""The reference training step of comera beside PyTorch's dense step, a step of each in turn; prints medians and ratios.

    python bench/step.py [--rounds 7] [--threads 2] [--batch 32] [--length 128] [--json]

The dense peer is what a PyTorch user writes: fused q/k/v attention through scaled_dot_product_attention with dropout,
GELU, post-norm layers, AdamW(fused=True), the same shape, the same random tokens.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
VOCABULARY, WIDTH, HEADS, FFN, LAYERS, CLASSES, DROPOUT = 30522, 768, 12, 3072, 6, 3, 0.1


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, FFN), nn.Linear(FFN, WIDTH)
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x, mask):
        batch, length, _ = x.shape
        heads = lambda t: t.view(batch, length, HEADS, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(heads(self.query(x)), heads(self.key(x)), heads(self.value(x)),
                                               attn_mask=mask, dropout_p=DROPOUT)
        x = self.norm_1(x + self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))))
        return self.norm_2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.position, self.segment = (nn.Embedding(n, WIDTH) for n in (VOCABULARY, 512, 2))
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.pooler, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens, segments, mask):
        x = self.word(tokens) + self.position(torch.arange(tokens.shape[1])) + self.segment(segments)
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


class Comera:
    """A bench_step process: one step when asked."""

    def __init__(self, options, share=None):
        words = [options.program, str(ROOT / "configs/six_encoder_nli.toml"), str(options.threads), str(options.batch),
                 str(options.length)] + ([str(share)] if share else [])
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--program", default=str(ROOT / "build/bench/bench_step"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)

    model = Dense()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    tokens = torch.randint(0, VOCABULARY, (options.batch, options.length))
    segments = torch.zeros_like(tokens)
    mask = torch.ones(options.batch, 1, 1, options.length, dtype=torch.bool)
    labels = torch.randint(0, CLASSES, (options.batch,))

    def dense_step():
        start = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens, segments, mask), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return {"seconds": time.perf_counter() - start, "loss": loss.item()}

    full, half = Comera(options), Comera(options, 0.5)
    steps = {"dense": dense_step, "comera": lambda: full.ask("step"), "comera, half ranks": lambda: half.ask("step")}
    for name, step in steps.items():  # warm up, and see that each trains the same task
        loss = step()["loss"]
        assert 0.5 < loss < 3.0, f"{name}: the first loss is {loss}, about ln 3 was expected"
        step()
    times = {name: [] for name in steps}
    for _ in range(options.rounds):
        for name, step in steps.items():
            times[name].append(step()["seconds"])
    medians = {name: statistics.median(values) for name, values in times.items()}
    information = {"comera": full.ask("info"), "comera, half ranks": half.ask("info")}
    for name, info in information.items():
        assert info["state_bytes"] == info["expected_state_bytes"], (name, info)
    result = {
        "batch": options.batch, "length": options.length, "threads": options.threads, "torch": torch.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(), "seconds": medians,
        "ratio": medians["dense"] / medians["comera"],
        "half_ranks_ratio": medians["comera"] / medians["comera, half ranks"],
        "parameters": {"dense": sum(p.numel() for p in model.parameters()),
                       **{name: info["parameters"] for name, info in information.items()}},
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{options.batch} x {options.length} tokens, {options.threads} threads, torch {torch.__version__}, "
          f"{result['processor']}, median of {options.rounds} interleaved rounds")
    for name, values in times.items():
        print(f"  {name:<20} {medians[name]:8.3f} s  ({min(values):.3f} to {max(values):.3f})  "
              f"{result['parameters'][name] / 1e6:7.2f} M parameters  {medians['dense'] / medians[name]:5.2f}x")


if __name__ == "__main__":
    main()
