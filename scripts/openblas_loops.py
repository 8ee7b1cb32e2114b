"""Imported before faiss: where the environment has no OPENBLAS_CORETYPE, the loops that its OpenBLAS multiplies with, SkylakeX's or
Haswell's, if the processor can run them.  One that it does not know would have those of Prescott, a fifth as fast; mt chooses likewise."""
import os
from pathlib import Path

flags = set(Path("/proc/cpuinfo").read_text().split())
if core := "SkylakeX" if {"avx512bw", "avx512vl"} <= flags else "Haswell" if {"avx2", "fma"} <= flags else None:
    os.environ.setdefault("OPENBLAS_CORETYPE", core)
