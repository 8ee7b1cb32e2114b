#!/usr/bin/env python3
"""Compare the blocks that mt-convert --imatrix makes with those of llama.cpp's ggml_quantize_chunk, byte by byte.

A Llama with random weights, of columns that blocks of 256 divide and some that they do not.  An importance matrix of random
numbers, with zeros among them, is written in both forms, GGUF by the package gguf; mt-convert makes every type by it, and each
tensor's numbers, of the file in float32, become blocks of that type in ggml.

Needs from PyPI: gguf, numpy and xllamacpp, whose wheel has llama.cpp in it (tried with 0.19.0, 2.4.6, 2026.10.11549).
Run:  scripts/compare-importance.py build/release/cmd
"""
import ctypes
import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy

TYPES = ["q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k"]
CONFIG = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1,
          "intermediate_size": 288, "max_position_embeddings": 64, "vocab_size": 96, "torch_dtype": "float32",
          "initializer_range": 0.05, "tie_word_embeddings": False}


def quantizer():
    found = importlib.util.find_spec("xllamacpp")
    if found is None:
        sys.exit("compare-importance: xllamacpp is not installed")
    quantize = ctypes.CDLL(str(pathlib.Path(found.origin).parent / "xllamacpp.abi3.so")).ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    return quantize


def write_matrix(path, importance):
    if path.suffix == ".dat":
        with open(path, "wb") as file:
            file.write(struct.pack("<i", len(importance)))
            for name, columns in importance.items():
                file.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 4, len(columns)))
                file.write((columns * numpy.float32(4)).tobytes())
        return
    writer = gguf.GGUFWriter(str(path), "")
    for name, columns in importance.items():
        writer.add_tensor(name + ".in_sum2", (columns * numpy.float32(8))[None, :])
        writer.add_tensor(name + ".counts", numpy.array([[8]], numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]) / "mt-convert")
    quantize, compared, differ = quantizer(), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "conf").mkdir()
        (folder / "conf/config.json").write_text(json.dumps(CONFIG))
        convert = [program, "--quiet", "--force", "--saver"]
        subprocess.run([*convert, "hf", "--mock", folder / "conf", folder / "hf"], check=True)
        subprocess.run([*convert, "gguf", "--dtype", "fp32", folder / "hf", folder / "whole"], check=True)
        whole = {t.name: t.data for t in gguf.GGUFReader(folder / "whole/model.gguf").tensors}
        draw = numpy.random.default_rng(1)
        importance = {}
        for name, data in whole.items():
            if name.startswith("blk.") and data.ndim == 2:
                columns = draw.exponential(size=data.shape[1]).astype(numpy.float32) ** 2
                columns[draw.random(len(columns)) < 0.2] = 0
                importance[name] = columns
        for form in ("gguf", "dat"):
            write_matrix(folder / f"importance.{form}", importance)
        for number, mixture in enumerate(TYPES):
            matrix = folder / f"importance.{('gguf', 'dat')[number % 2]}"
            subprocess.run([*convert, "gguf", "--dtype", mixture, "--imatrix", matrix, folder / "hf", folder / "out"],
                           check=True)
            for tensor in gguf.GGUFReader(folder / "out/model.gguf").tensors:
                if tensor.name not in importance or tensor.data.dtype != numpy.uint8:
                    continue
                rows, columns = whole[tensor.name].shape
                theirs = (ctypes.c_uint8 * tensor.data.nbytes)()
                numbers = numpy.ascontiguousarray(whole[tensor.name])
                quantize(int(tensor.tensor_type), numbers.ctypes.data, theirs, 0, rows, columns,
                         importance[tensor.name].ctypes.data)
                compared += 1
                if bytes(theirs) != tensor.data.tobytes():
                    differ += 1
                    print(f"{mixture}: {tensor.name} in {tensor.tensor_type.name} differs")
    print(f"{compared} tensors compared, {differ} differ")
    return 1 if differ or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
