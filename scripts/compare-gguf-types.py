#!/usr/bin/env python3
"""Compare mt-convert's GGUF files in blocks with those of llama.cpp's own quantizer, tensor by tensor: types and bytes.

Three models with random weights of columns that blocks of 256 divide, and some that they do not: a Llama whose heads share
keys, a GPT-2 with tied words and one matrix for queries, keys and values, and a Mixtral of eight experts.  mt-convert writes
each in float32, llama.cpp's llama_model_quantize makes every type of that file, mt-convert of the checkpoint.  The library is
of 2024: since then llama.cpp (007dbbf3) counts matrices of queries, keys and values among values, and gives q4_0 instead of
iq4_nl where 256 does not divide columns of q2_k and q3_k; mt does as that, and such tensors are counted apart.

Needs from PyPI: gguf, numpy, and gpt4all, whose wheel has llama.cpp as a shared library (tried with 0.19.0, 2.5.0, 2.8.2).
Run:  scripts/compare-gguf-types.py build/release/cmd [--library FILE]
"""
import argparse
import ctypes
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import gguf

TYPES = {"q8_0": 7, "q4_0": 2, "q4_1": 3, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k_l": 13,
         "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18}  # llama_ftype
WORDS = pathlib.Path(__file__).resolve().parent.parent / "testdata/gpt2_bpe"
LLAMA = ["--swiglu", "--normalization", "RMSNorm", "--disable-bias-linear", "--position-embedding-type", "rope",
         "--untie-embeddings-and-output-weights"]
MODELS = {
    "llama": ["--num-layers", "18", "--group-query-attention", "--num-query-groups", "2", "--ffn-hidden-size", "544", *LLAMA],
    "gpt2": ["--num-layers", "9"],
    "mixtral": ["--num-layers", "9", "--ffn-hidden-size", "256", "--num-experts", "8", *LLAMA],
}


class Parameters(ctypes.Structure):  # llama_model_quantize_params, with room behind
    _fields_ = [("threads", ctypes.c_int32), ("type", ctypes.c_int), ("output", ctypes.c_int), ("words", ctypes.c_int),
                ("flags", ctypes.c_bool * 5), ("rest", ctypes.c_void_p * 6)]


def library(path):
    if path is None:
        found = importlib.util.find_spec("gpt4all")
        if found is None:
            sys.exit("compare-gguf-types: gpt4all is not installed")
        folder = pathlib.Path(found.origin).parent / "llmodel_DO_NOT_MODIFY/build"
        path = folder / "libllamamodel-mainline-kompute-avxonly.so"
    loaded = ctypes.CDLL(str(path))
    loaded.llama_model_quantize_default_params.restype = Parameters
    return loaded


def is_of_newer_rules(tensor, theirs, ours):
    return "attn_qkv" in tensor and theirs != ours or (theirs, ours) == ("IQ4_NL", "Q4_0")


def tensors(path):
    return {t.name: (t.tensor_type.name, t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs")
    parser.add_argument("--library")
    args = parser.parse_args()
    llama, programs, wrong = library(args.library), pathlib.Path(args.programs).resolve(), 0
    with tempfile.TemporaryDirectory() as folder:
        def run(program, *words):
            subprocess.run([f"{programs}/{program}", "--quiet", *map(str, words)], check=True, cwd=folder)

        for model, options in MODELS.items():
            run("mt-pretrain", *options, "--hidden-size", 256, "--num-attention-heads", 8, "--seq-length", 32,
                "--max-position-embeddings", 32, "--micro-batch-size", 1, "--global-batch-size", 1, "--train-iters", 1,
                "--lr", "1e-3", "--mock-data", "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", WORDS / "vocab.json",
                "--merge-file", WORDS / "merges.txt", "--eval-iters", 0, "--device", "cpu", "--force", "--save", "ckpt")
            run("mt-convert", "--force", "--saver", "gguf", "--dtype", "fp32", "ckpt", "whole")
            for name, number in TYPES.items():
                parameters = llama.llama_model_quantize_default_params()
                parameters.type, parameters.threads = number, 2
                if llama.llama_model_quantize(f"{folder}/whole/model.gguf".encode(), f"{folder}/theirs.gguf".encode(),
                                              ctypes.byref(parameters)) != 0:
                    sys.exit(f"compare-gguf-types: llama.cpp makes no {name} of {model}")
                run("mt-convert", "--force", "--saver", "gguf", "--dtype", name, "ckpt", "ours")
                theirs, ours = tensors(f"{folder}/theirs.gguf"), tensors(f"{folder}/ours/model.gguf")
                newer = {t for t in theirs.keys() & ours.keys() if is_of_newer_rules(t, theirs[t][0], ours[t][0])}
                differ = sorted(t for t in theirs.keys() | ours.keys() if t not in newer and theirs.get(t) != ours.get(t))
                wrong += len(differ)
                print(f"{model} {name}: {len(theirs)} tensors, {len(differ)} differ, {len(newer)} of newer rules", flush=True)
                for tensor in differ[:5]:
                    print(" ", tensor, *(found.get(tensor, ["is not there"])[0] for found in (theirs, ours)), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
