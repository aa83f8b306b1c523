"""Compares WordPiece with the Python package `tokenizers`, id by id.

compare_tokenizers.py TOKENIZE_FILE corpus FOLDER: every line of every text file below the folder (or below COMERA_DATA
when that is set), with the BERT vocabulary found there.
compare_tokenizers.py TOKENIZE_FILE characters [SEED]: every code point alone, between letters and after an accent, and
random strings of the characters whose class or order is delicate, with a vocabulary of single characters, in which
nothing is unknown.

Exits with 77, which ctest shows as skipped, when the package or the data are missing; under CI=true that is a failure.
"""
import gzip
import os
import pathlib
import random
import subprocess
import sys
import tempfile


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)


try:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
except ImportError as error:
    skip(f"{error}; pip install -r requirements-test.txt")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SURROGATES = range(0xD800, 0xE000)


def reference(vocabulary, lowercase):
    """As BertWordPieceTokenizer, but without added tokens: text is plain text here, "[SEP]" in it too."""
    tokens = {token: i for i, token in enumerate(vocabulary.read_text(encoding="utf-8").split("\n")[:-1])}
    tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def compare(name, tool, vocabulary, lowercase, lines, folder):
    """Number of lines that differ; the first are printed."""
    text = folder / "text"
    text.write_bytes("".join(line + "\n" for line in lines).encode())
    kind = "uncased" if lowercase else "cased"
    result = subprocess.run([tool, kind, vocabulary, text], stdout=subprocess.PIPE, check=True)
    ours = [[int(i) for i in line.split()] for line in result.stdout.decode().split("\n")[:-1]]
    assert len(ours) == len(lines), f"{name}: {len(lines)} lines, {len(ours)} results"
    theirs = reference(vocabulary, lowercase)
    differ = 0
    for start in range(0, len(lines), 4096):
        for offset, encoding in enumerate(theirs.encode_batch_fast(lines[start:start + 4096])):
            line = start + offset
            if encoding.ids == ours[line]:
                continue
            differ += 1
            if differ <= 5:
                print(f"{name}:{line + 1}: {lines[line]!r}\n  theirs {encoding.ids}\n  ours   {ours[line]}")
    tokens = sum(map(len, ours))
    print(f"{name} {kind}: {len(lines)} lines, {tokens} tokens, {differ} lines differ")
    return differ


def read_text(path):
    """Lines of a file, or None when it is not text."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    try:
        return data.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        return None


def compare_corpus(tool, data, folder):
    vocabulary = data / "vocab" / "bert-base-uncased-vocab.txt"
    if not vocabulary.exists():
        skip(f"no vocabulary {vocabulary}")
    differ = 0
    for path in sorted(p for p in data.rglob("*") if p.is_file()):
        lines = read_text(path)
        if lines is None:
            print(f"{path.name}: not UTF-8, left out")
            continue
        for lowercase in (True, False):
            differ += compare(path.name, tool, vocabulary, lowercase, lines, folder)
    return differ


def compare_characters(tool, seed, folder):
    code_points = [chr(c) for c in range(0x110000) if c not in SURROGATES]
    vocabulary = folder / "characters.txt"
    tokens = [c for c in code_points if ord(c) > 32 and ord(c) != 127 and not c.isspace()]
    vocabulary.write_text("".join(f"{t}\n" for t in SPECIAL + tokens + ["##" + t for t in tokens]), encoding="utf-8")

    # Several to a line, because a call for each would be slow; LF would be a line's end.
    words = [f"a{c}b {c} e\u0301{c}" for c in code_points if c != "\n"]
    lines = [" ".join(words[i:i + 64]) for i in range(0, len(words), 64)]

    print(f"seed {seed}")
    draw = random.Random(seed)
    normalizer = normalizers.NFD()
    delicate = [c for c in code_points if normalizer.normalize_str(c) != c and not "\uac00" <= c <= "\ud7a3"]
    delicate += [c for c in code_points if normalizer.normalize_str("a" + c + "\u0334") != "a" + c + "\u0334"]
    delicate += list("aZ.,'[]#\u00df\u0130\u03a3\u4e00\uf900\uac01\u200d\u00ad\ufffd\u3000\t \u0000\u000b")
    lines += ["".join(draw.choices(delicate, k=draw.randrange(1, 24))) for _ in range(20000)]
    lines += ["", " ", "a" * 100, "a" * 101, "\u00e9" * 100, "\u00e9" * 101, "[SEP] [CLS][PAD] ##a [unk]"]
    return sum(compare("characters", tool, vocabulary, lowercase, lines, folder) for lowercase in (True, False))


def main():
    tool, part, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        if part == "corpus":
            differ = compare_corpus(tool, pathlib.Path(os.environ.get("COMERA_DATA") or rest[0]), pathlib.Path(name))
        else:
            seed = int(rest[0]) if rest else random.SystemRandom().randrange(2**32)
            differ = compare_characters(tool, seed, pathlib.Path(name))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
