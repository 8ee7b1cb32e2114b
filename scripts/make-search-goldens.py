#!/usr/bin/env python3
"""Make testdata/search: small indexes of faiss's, and what faiss finds in them.

    python scripts/make-search-goldens.py

For each index its file, NAME.faissindex, and NAME.txt: the index string, how many vectors it was trained on and has, then
a line for each of some queries with the ten that faiss finds and, as hexadecimal digits, sa_encode() of the query, then
the distances.  Vectors follow from a formula, which tests/search/vector_index_test.cpp has, too; vectors.npy has the
first 200.

Needs from PyPI: faiss-cpu (made with 1.15.1), numpy.
"""
import os
from pathlib import Path

os.environ.setdefault("FAISS_SIMD_LEVEL", "AVX2")  # with more it rounds what is asked of SQbf16, too
import faiss  # noqa: E402
import numpy  # noqa: E402

FOLDER = Path(__file__).parent.parent / "testdata" / "search"
COLUMNS, TRAINED, QUERIES, FOUND = 16, 600, 12, 10


def vectors(first, count):
    """Clusters: a centre of eight, and around it a fifth of what it is apart from others."""
    def number(i):
        i = i.astype(numpy.uint64) * numpy.uint64(2654435761) % numpy.uint64(1 << 32)
        i = (i ^ (i >> numpy.uint64(15))) * numpy.uint64(2246822519) % numpy.uint64(1 << 32)
        return (i >> numpy.uint64(8)).astype(numpy.float32) / numpy.float32(1 << 24) - numpy.float32(0.5)
    i = numpy.arange(first * COLUMNS, (first + count) * COLUMNS)
    row, column = i // COLUMNS, i % COLUMNS
    x = number(row % 8 * COLUMNS + column + 1000000) + number(i) * numpy.float32(0.25)
    return x.astype(numpy.float32).reshape(count, COLUMNS)


CASES = {"flat": ("Flat", 50, None), "inner": ("Flat", 50, None), "lists": ("IVF4,Flat", 50, 2), "sparse": ("IVF4,Flat", 1, 4),
         "codes": ("IVF8,PQ4", 200, 3), "opq": ("OPQ2_8,IVF4_HNSW4,PQ2", 50, 4), "graph": ("IVF32_HNSW4,Flat", 200, 5),
         "pca": ("PCAR8,IVF4,PQ2", 50, 4), "scalars": ("SQ6", 50, None), "half": ("SQfp16", 50, None), "brain": ("SQbf16", 50, None),
         "residuals": ("IVF4,SQ8", 50, 2), "whitened": ("PCAW8,SQ4", 50, None), "refined": ("IVF4,SQ4,RFlat", 50, 2),
         "finer": ("OPQ2_8,IVF4,PQ2,Refine(SQ8)", 50, 4), "products": ("PQ4", 50, None), "normed": ("L2norm,IVF4,PQ2", 50, 2),
         "halves": ("PQ8x4", 50, None), "odd": ("OPQ5_5,IVF4,PQ5x4", 50, 2), "whole": ("OPQ2_2,IVF4,PQ2", 50, 2), "fast": ("PQ8x4fs", 50, None),
         "fast_lists": ("IVF4,PQ8x4fs_64", 200, 3), "fast_residuals": ("OPQ5_10,IVF4_HNSW4,PQ5x4fsr", 200, 3),
         "fast_refined": ("IVF4,PQ8x4fs,RFlat", 50, 2)}
FACTOR = 2  # times as many are found before they are refined


def main():
    faiss.omp_set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    queries = vectors(5000, QUERIES)
    numpy.save(FOLDER / "vectors.npy", vectors(0, 200))
    for name, (string, count, lists) in CASES.items():
        index = faiss.index_factory(COLUMNS, string, faiss.METRIC_INNER_PRODUCT if name == "inner" else faiss.METRIC_L2)
        if name == "whole":
            faiss.downcast_index(faiss.extract_index_ivf(index)).by_residual = False
        index.train(vectors(0, TRAINED))
        index.add(vectors(0, count))
        if isinstance(index, faiss.IndexRefine):
            index.k_factor = FACTOR
        faiss.write_index(index, str(FOLDER / f"{name}.faissindex"))
        if lists:
            base = faiss.downcast_index(index.base_index) if isinstance(index, faiss.IndexRefine) else index
            faiss.extract_index_ivf(base).nprobe = lists
        distances, ids = index.search(queries, FOUND)
        codes = index.sa_encode(queries)
        lines = [f"{string} {count} {lists or 0}"]
        for row in range(QUERIES):
            lines.append(" ".join(map(str, ids[row])) + " " + codes[row].tobytes().hex() + " " + " ".join(map(repr, map(float, distances[row]))))
        (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
