#!/usr/bin/env python3
"""Folders as people have them, through mt and through the programs that they are meant for.

    compare-folders.py --build build/cpu --cases FOLDER     every case of that folder
    compare-folders.py --build build/cpu --tokenizers       tokenizers made here
    compare-folders.py --build build/cpu --exports          those of them without a tokenizer.json, as mt exports them
    compare-folders.py --build build/cpu --gguf             tokenizers made here, through a GGUF file and back
    compare-folders.py --build build/cpu --models           models made here

Prints a line for each, and how many differ; exits with 1 if any does, with 0 if the cases are absent.
--cases: each case has its right value beside it; those of FOLDER/data need nothing but Python. --tokenizers
makes folders of every published configuration with transformers (4.51.3 or 5.24.0, which this Python has) and
compares the ids of random strings. --exports compares what transformers makes of the folder that mt-convert
writes with what mt makes of the one it read, which --tokenizers compares with 4.51.3. --gguf compares the ids of what comes
back with those that mt gives of the folder; what a warning calls lost may be. --models is
scripts/model_folders.py's. What needs packages that this Python has not (transformers; torch for models and the
cases of FOLDER/train, which need transformers 5, safetensors and gguf, too) is skipped.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

ROWS = []  # (group, name, what is wrong or "")


def row(group, name, wrong):
    ROWS.append((group, name, wrong))
    print(f"{group:12} {name:42} {'differs: ' + wrong if wrong else 'equal'}", flush=True)


def run(*command):
    """(exit code, stdout, stderr)"""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr


class Preprocess:
    def __init__(self, build):
        self.program = Path(build) / "cmd" / "mt-preprocess"

    def ids(self, folder, *options):
        """The documents that come of these options, or what went wrong."""
        with tempfile.TemporaryDirectory(dir=folder) as out:
            prefix = Path(out) / "o"
            code, _, err = run(self.program, *options, "--output-prefix", prefix)
            if code != 0:
                return f"{code} {err.strip()}"
            code, text, err = run(self.program, "cat", f"{prefix}_text_document")
            return [json.loads(line) for line in text.splitlines()] if code == 0 else err.strip()


# --- The cases. ---


def first_difference(found, expected):
    if not isinstance(found, list):
        return found
    if len(found) != len(expected):
        return f"{len(found)} documents, expected {len(expected)}"
    for i, (mine, right) in enumerate(zip(found, expected)):
        if mine != right:
            return f"document {i}: {mine[:12]}, expected {right[:12]}"
    return ""


def expected_ids(folder):
    """The ids of each line, whatever the file's form."""
    content = json.loads((folder / "expected.json").read_text())
    if isinstance(content, dict):
        content = next(content[k] for k in ("ids", "transformers_4.51.3", "expected") if k in content)
    return content


def says(found, *words):
    """Was it refused by a message with all these words?"""
    if isinstance(found, list):
        return "accepted, expected a refusal"
    return "" if all(word in found for word in words) else found


NULL = ("--tokenizer-type", "NullTokenizer", "--vocab-size")


def token_case(preprocess, folder, out):
    options = ["--input", folder / "input.jsonl", "--tokenizer-type", "HuggingFaceTokenizer"]
    found = preprocess.ids(out, *options, "--tokenizer-model", folder / "tok")
    return first_difference(found, expected_ids(folder))


def case_33(preprocess, folder, out):
    options = ("--tiktoken-pattern", "v2", "--vocab-size", 261, "--tiktoken-num-special-tokens", 3)
    found = preprocess.ids(out, "--input", folder / "input.jsonl", "--tokenizer-type", "TikTokenizer",
                           "--tokenizer-model", folder / "ranks.json", *options)
    return first_difference(found, [[260, 35, 198, 172, 13]])


def null_case(name, size, expected, *more):
    def case(preprocess, folder, out):
        found = preprocess.ids(out, "--input", folder / name, *NULL, size, *more)
        return first_difference(found, expected)

    return case


def case_37(preprocess, folder, out):
    array = preprocess.ids(out, "--input", folder / "array.jsonl", *NULL, 10)
    pretty = preprocess.ids(out, "--input", folder / "pretty.jsonl", *NULL, 10)
    return says(array, "a JSON array") or says(pretty, "several lines")


def case_38(preprocess, folder, out):
    found = preprocess.ids(out, "--input", folder / "input.jsonl", "--tokenizer-type", "Llama2Tokenizer",
                           "--tokenizer-model", folder / "tokenizer.model")
    return says(found, "tiktoken", "TikTokenizer")


def case_43(preprocess, folder, out):
    code, text, err = run(preprocess.program, "clean", "--repair", "--input", folder / "input.jsonl", "--output", "-")
    texts = [json.loads(line)["text"] for line in text.splitlines()]
    right = ["It\u2019s", "a \u2013 b", "wait\u2026", "\u20ac5.00"]
    return "" if code == 0 and texts == right else f"{code} {texts} {err.strip()}"


OTHER_CASES = {
    "33": case_33,
    "34": null_case("input.jsonl.zst", 10, [[1, 2, 3], [4, 5]]),
    "35": null_case("input.jsonl", 10, [[1, 2], [3]]),
    "37": case_37,
    "38": case_38,
    "43": case_43,
    "45": null_case("input.jsonl.gz", 10, [[1], [2], [3], [4], [5], [6]]),
    "47": null_case("input.jsonl", 100, [[], [1, 2], [3], [4], [[5], [6, 7]], [8]], "--on-error", "skip"),
}


def data_cases(cases, preprocess):
    for folder in sorted(p for p in (cases / "data").iterdir() if p.is_dir()):
        number = folder.name[:2]
        case = OTHER_CASES.get(number) or (token_case if (folder / "tok").is_dir() else None)
        if case is None:
            continue  # samples of a training run: scripts/compare-data-index.py's
        with tempfile.TemporaryDirectory() as out:
            row("data", folder.name, case(preprocess, folder, out))


def training_cases(cases, build):
    """Programs that print what is wrong and end with 0 if nothing is."""
    for case in sorted((cases / "train").glob("*.py")):
        if case.name == "common.py":
            continue
        done = subprocess.run([sys.executable, "-B", case.resolve()], capture_output=True, text=True, errors="replace",
                              env={**os.environ, "MT": str(build / "cmd")})
        said = (done.stdout + done.stderr).strip().splitlines()
        row("train", case.stem, "" if done.returncode == 0 else " ".join(said[-3:]) or f"ended with {done.returncode}")


# --- Tokenizer folders. ---

# Regular expressions that published tokenizers cut by.
PUBLISHED = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt-4": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt-4-possessive": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "superbpe": r"(?=(\d{3})+(?!\d))| ?\p{L}+|\p{N}+",
    "digits-of-three": r"\d{1,3}(?=(?:\d{3})*\b)",
    "clip": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "deepseek-coder": r"[\r\n]|\s?\p{L}+|\s?\p{P}+|[一-龥ࠀ-一가-퟿]+|\p{N}",
    "chatglm": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "words-and-signs": r"\w+|[^\w\s]+",
    "camel-case": r"(?<=[a-z])(?=[A-Z])|\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|\d",
    "tabs": r"\t+| {2,}|\n(?=\S)|[^\t\n ]+",
    "qwen-3.5": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
WORDS = ["the", "Hello", "it's", "DON'T", "STRASSE", "stra\u00dfe", "caf\u00e9", "e\u0301", "\u6f22\u5b57", "\u304b\u306a\u30ab\u30ca", "\u0939\u093f\u0928\u094d\u0926\u0940",
         "\u0441\u043b\u043e\u0432\u043e", "\u05e9\u05dc\u05d5\u05dd", "\ud55c\uad6d", "12345", "\u0661\u0662", "3.14", "x_y", "camelCase", "\U0001f600\u200d", "\u20ac5", "...", "<|im|>", "<|endoftext|>",
         "<s>", "</s>", "[MASK]", "<mask>", "[CLS]", "\u0130\u0131", "\ufb01ne", "\u017fs", "\u00bd", "\u2160"]
BETWEEN = [" ", " ", "", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", " \n ", "-", "."]


def random_character(rng):
    """Of those that every version in use knows."""
    while True:
        first, last = rng.choice(((32, 127), (0xA0, 0x3000), (0x10000, 0x1F9FF)))
        character = chr(rng.randrange(first, last))
        if unicodedata.category(character) != "Cn":
            return character


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 8)):
        parts.append(rng.choice(WORDS) if rng.random() < 0.8 else random_character(rng))
        parts.append(rng.choice(BETWEEN))
    return "".join(parts)


def tokenizer_folders(goldens):
    """(name, files) of every folder of the goldens, and of the published expressions."""
    yield from goldens.cases()
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    for name, pattern in PUBLISHED.items():
        yield f"published-{name}", {"tokenizer.json": goldens.regex(pattern), "tokenizer_config.json": config}


def load_goldens():
    spec = importlib.util.spec_from_file_location("goldens", Path(__file__).parent / "make-folder-goldens.py")
    goldens = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(goldens)
    return goldens


def ids_of(preprocess, texts, out, folder, version):
    (Path(out) / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return preprocess.ids(out, "--input", Path(out) / "texts.jsonl", "--tokenizer-type", "HuggingFaceTokenizer",
                          "--tokenizer-model", folder, "--transformers-version", version)


def compare_tokenizers(preprocess, strings, seed, only):
    import transformers

    goldens = load_goldens()
    rng = random.Random(seed)
    texts = [random_text(rng) for _ in range(strings)]
    for name, files in tokenizer_folders(goldens):
        if (only and only not in name) or (name, goldens.VERSION) in goldens.UNREAD:
            continue
        with tempfile.TemporaryDirectory() as out:
            folder = Path(out) / "folder"
            folder.mkdir()
            for file, content in files.items():
                goldens.write(folder / file, content)
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                right = tokenizer(texts).input_ids
            except Exception:
                continue  # this version of transformers does not load it
            found = ids_of(preprocess, texts, out, folder, goldens.VERSION)
            wrong = first_difference(found, right)
            if isinstance(found, list) and len(found) == len(right):
                differ = [i for i in range(len(right)) if found[i] != right[i]]
                wrong = f"{len(differ)} of {len(right)}, first {texts[differ[0]]!r}: {found[differ[0]][:16]}, expected {right[differ[0]][:16]}" if differ else ""
            row(f"tokenizer {goldens.VERSION}", name, wrong)


TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 2048, "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "torch_dtype": "float32"}


# Classes of which version 5 makes another tokenizer than version 4, whatever their tokenizer.json says.
ANEW = ("LlamaTokenizer", "CodeLlamaTokenizer", "T5Tokenizer", "GPTNeoXTokenizer", "GemmaTokenizer", "XLMRobertaTokenizer",
        "CamembertTokenizer", "XGLMTokenizer", "AlbertTokenizer", "XLNetTokenizer", "DebertaV2Tokenizer")


def compare_exports(preprocess, convert, strings, seed, only):
    import transformers

    goldens = load_goldens()
    rng = random.Random(seed)
    texts = [random_text(rng) for _ in range(strings)]
    for name, files in goldens.cases():
        if "tokenizer.json" in files or "config.json" in files or (only and only not in name):
            continue
        if goldens.VERSION > 4 and files["tokenizer_config.json"].get("tokenizer_class", "").startswith(ANEW):
            continue
        with tempfile.TemporaryDirectory() as out:
            folder, export = Path(out) / "folder", Path(out) / "export"
            folder.mkdir()
            for file, content in files.items():
                goldens.write(folder / file, content)
            try:
                transformers.AutoTokenizer.from_pretrained(folder)
            except Exception:
                continue  # this version of transformers does not load it
            (folder / "config.json").write_text(json.dumps(TINY))
            right = ids_of(preprocess, texts, out, folder, 4)
            code, _, err = run(convert, "--mock", "--saver", "hf", folder, export)
            if code != 0:
                row(f"export {goldens.VERSION}", name, err.strip())
                continue
            if not (export / "tokenizer.json").exists():
                row(f"export {goldens.VERSION}", name, "no tokenizer.json is made")
                continue
            found = transformers.AutoTokenizer.from_pretrained(export)(texts).input_ids
            row(f"export {goldens.VERSION}", name, first_difference(found, right))


# --- GGUF files. ---


def compare_gguf(preprocess, convert, strings, seed, only):
    goldens = load_goldens()
    rng = random.Random(seed)
    texts = [random_text(rng) for _ in range(strings)]
    for name, files in tokenizer_folders(goldens):
        if "config.json" in files or only not in name:
            continue
        with tempfile.TemporaryDirectory() as out:
            folder, gguf, back = (Path(out) / part for part in ("folder", "gguf", "back"))
            folder.mkdir()
            for file, content in files.items():
                goldens.write(folder / file, content)
            right = ids_of(preprocess, texts, out, folder, 4)
            if not isinstance(right, list):
                continue  # mt reads it as of version 5 alone, or not at all
            (folder / "config.json").write_text(json.dumps({**TINY, "vocab_size": 6000}))
            code, _, said = run(convert, "--mock", "--saver", "gguf", folder, gguf)
            err = ""
            if code == 0:
                code, _, err = run(convert, "--saver", "hf", gguf, back)
            if code != 0:
                row("gguf", name, (said + err).strip())
            elif "GGUF has no place" not in said:
                row("gguf", name, first_difference(ids_of(preprocess, texts, out, back, 4), right))


# --- Model folders. ---


def compare_models(build, only):
    from model_folders import compare, version

    for name, text, fine in compare(build / "cmd", only):
        row(f"model {version()}", name, "" if fine else text)


# --- Main. ---


def is_absent(*packages):
    """Whether this Python has not all of them, and says which."""
    lacking = [package for package in packages if importlib.util.find_spec(package) is None]
    if lacking:
        print(f"{', '.join(lacking)}: absent from this Python, skipped")
    return bool(lacking)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/cpu", help="where mt is built")
    parser.add_argument("--cases", type=Path, help="the folder with the cases")
    parser.add_argument("--tokenizers", action="store_true", help="folders of tokenizers, against transformers")
    parser.add_argument("--exports", action="store_true", help="the tokenizers that mt exports, by transformers")
    parser.add_argument("--gguf", action="store_true", help="tokenizers through a GGUF file and back")
    parser.add_argument("--models", action="store_true", help="folders of models, against transformers")
    parser.add_argument("--strings", type=int, default=20000, help="random strings for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="folders with this in their names")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    preprocess = Preprocess(build)
    if options.cases is not None:
        if not options.cases.is_dir():
            print(f"{options.cases}: absent, skipped")
        else:
            data_cases(options.cases, preprocess)
            if is_absent("torch", "transformers", "safetensors", "gguf"):
                pass
            elif importlib.metadata.version("transformers") < "5":
                print("transformers: is no 5, cases of train skipped")
            else:
                training_cases(options.cases, build)
    convert = build / "cmd" / "mt-convert"
    if (options.tokenizers or options.exports or options.gguf) and not is_absent("transformers"):
        if options.tokenizers:
            compare_tokenizers(preprocess, options.strings, options.seed, options.only)
        if options.exports:
            compare_exports(preprocess, convert, options.strings, options.seed, options.only)
        if options.gguf:
            compare_gguf(preprocess, convert, options.strings, options.seed, options.only)
    if options.models and not is_absent("torch", "transformers", "safetensors"):
        compare_models(build, options.only)
    wrong = sum(1 for _, _, text in ROWS if text)
    print(f"{len(ROWS)} compared, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
