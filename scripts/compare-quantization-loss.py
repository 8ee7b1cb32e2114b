#!/usr/bin/env python3
"""Compare the perplexities of a Llama in eight bits and fewer with that of its weights in fp32.

A Llama is trained by mt-pretrain on DATA/test.txt (WikiText-2's), or taken, converted to each format by mt-convert, and scored by
mt-eval on the first bytes of DATA/valid.txt: as the format's own folder or file, and as the fp32 numbers that mt-convert makes of it,
which must be within 0.1 % of one another.  Above fp32's may lie q8_0 by 0.1 %, q6_k by 0.5 %, q4_k by 3 %, fp8 by 0.3 % and int4_awq by
3 %; the other formats are told.

  --size SIZE        small: 3 million weights, minutes on two cores; 124m: GPT-2's width, depth and tokens, whose vocab.json and
                     merges.txt are in DATA/../gpt2; where a GPU is, seconds a step else [small]
  --model FOLDER     of Hugging Face's, as --keep has made it: it is not trained
  --keep FOLDER      where the trained model is put
  --train-alone      do no more than that
  --iterations N     of training [600; of 124m 120]
  --bytes N          of valid.txt [100000]
  --format NAME ...  of these alone
  --with "FLAGS"     of mt-eval, when it scores a format's own folder or file, as --with=--dequantize
  --device NAME      what all are scored on: cpu, which multiplies with blocks and folders' matrices as they are; or cuda [mt-eval's choice]
Run:  scripts/compare-quantization-loss.py BIN DATA
BIN holds mt-preprocess, mt-pretrain, mt-convert and mt-eval.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

LLAMA = ["--swiglu", "--normalization", "RMSNorm", "--disable-bias-linear", "--position-embedding-type", "rope",
         "--hidden-dropout", "0", "--attention-dropout", "0", "--adam-beta2", "0.95", "--lr-decay-style", "cosine", "--clip-grad", "1"]
# Columns are multiples of 256, as blocks of GGUF's k-quants need them.
SIZES = {"small": (["--num-layers", "4", "--hidden-size", "256", "--ffn-hidden-size", "512", "--num-attention-heads", "4", "--seq-length", "128",
                    "--max-position-embeddings", "256", "--micro-batch-size", "8", "--global-batch-size", "8", "--lr", "2e-3", "--min-lr",
                    "3e-4"], 600),
         "124m": (["--num-layers", "12", "--hidden-size", "768", "--ffn-hidden-size", "2048", "--num-attention-heads", "12", "--seq-length", "512",
                   "--max-position-embeddings", "512", "--micro-batch-size", "16", "--global-batch-size", "64", "--lr", "1e-3", "--min-lr",
                   "1e-4", "--bf16"], 120)}
# Flags of mt-convert, and the percents that a perplexity may lie above fp32's.
FORMATS = {"q8_0": ("gguf --dtype q8_0", .1), "q6_k": ("gguf --dtype q6_k", .5), "q5_k_m": ("gguf --dtype q5_k_m", None),
           "q4_k_s": ("gguf --dtype q4_k_s", 3), "q4_k_m": ("gguf --dtype q4_k_m", 3), "q4_0": ("gguf --dtype q4_0", None),
           "q3_k_m": ("gguf --dtype q3_k_m", None), "q2_k": ("gguf --dtype q2_k", None), "fp8": ("hf --quantize fp8", .3),
           "fp8_calib": ("hf --quantize fp8 CALIB", .3), "fp8_block": ("hf --quantize fp8_block", .3),
           "modelopt_fp8": ("hf --quantize fp8 --quantize-layout modelopt CALIB", .3), "int8_sq": ("hf --quantize int8_sq CALIB", None),
           "int4_awq": ("hf --quantize int4_awq CALIB", 3), "w4a8_awq": ("hf --quantize w4a8_awq CALIB", 3),
           "nvfp4": ("hf --quantize nvfp4", None), "mxfp4": ("hf --quantize mxfp4", None)}


def run(program, *arguments):
    return subprocess.run([str(program), *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def articles(text):
    """A text's parts, JSON lines: each begins with a heading."""
    return "".join(json.dumps({"text": " = " + part}) + "\n" for part in text.split("\n = ") if part.strip())


def train(programs, data, size, iterations, folder, kept):
    (folder / "train.jsonl").write_text(articles((data / "test.txt").read_text()))
    words = data.parent / "gpt2"
    if size == "small":
        words = folder / "words"
        run(programs / "mt-preprocess", "vocab", "--input", folder / "train.jsonl", "--vocab-size", 2048, "--output-dir", words)
    run(programs / "mt-preprocess", "--quiet", "--input", folder / "train.jsonl", "--output-prefix", folder / "train", "--tokenizer-type", "GPT2BPETokenizer",
        "--vocab-file", words / "vocab.json", "--merge-file", words / "merges.txt", "--append-eod")
    flags, usual = SIZES[size]
    steps = iterations or usual
    run(programs / "mt-pretrain", *LLAMA, *flags, "--train-iters", steps, "--lr-warmup-iters", steps // 10, "--split", "1,0,0", "--save",
        folder / "ckpt", "--save-interval", steps, "--data-path", folder / "train_text_document", "--quiet")
    run(programs / "mt-convert", "--quiet", "--saver", "hf", "--dtype", "fp32", folder / "ckpt", kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--train-alone", action="store_true")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--bytes", type=int, default=100000)
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--with", dest="flags", default="")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = options.model or options.keep or folder / "model"
        if not options.model:
            train(options.programs, options.data, options.size, options.iterations, folder, model)
        if options.train_alone:
            return 0
        text = (options.data / "valid.txt").read_bytes()[:options.bytes].decode(errors="ignore")
        (folder / "valid.jsonl").write_text(articles(text))

        def perplexity(load, flags=""):
            told = run(options.programs / "mt-eval", "--quiet", "--json", "--load", load, "--device", options.device, *flags.split(), "--task",
                       "perplexity", folder / "valid.jsonl")
            return json.loads(told.splitlines()[-1])["perplexity"]

        whole = perplexity(model)
        print(f"{'fp32':14s} {whole:10.4f}", flush=True)
        for form in options.format:
            flags, most = FORMATS[form]
            made, numbers = folder / form, folder / f"{form}-numbers"
            flags = flags.replace("CALIB", f"--calib {options.data / 'test.txt'} --calib-size 32 --calib-seq 128")
            run(options.programs / "mt-convert", "--quiet", "--saver", *flags.split(), model, made)
            run(options.programs / "mt-convert", "--quiet", "--saver", "hf", "--dtype", "fp32", made, numbers)
            found, exact = perplexity(made, options.flags), perplexity(numbers)
            above, off = (found / whole - 1) * 100, abs(found / exact - 1) * 100
            wrong = off > .1 or (most is not None and above > most)
            print(f"{form:14s} {found:10.4f} {above:+8.3f} %{'' if most is None else f' of {most}':8s}, {off:.4f} % from its numbers in fp32"
                  f"{'  TOO FAR' if wrong else ''}", flush=True)
            failures += wrong
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
