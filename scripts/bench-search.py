#!/usr/bin/env python3
"""How fast mt-retro-index trains, fills and searches indexes, beside faiss-cpu on the same machine.

    python scripts/bench-search.py build/release/cmd [--device cuda] [--threads 0] [--vectors 1000000] [--columns 768]
        [--queries 10000] [-k 10] [--nprobe 32] [--ef-search 64] [--rounds 1] [--exact 10000] [--same-index]
        [--processor-time] [INDEX ...]

For each index string, of made vectors around centres: `train`, `add` and `query` as whole commands, from files to files, and
without what the same command takes with 64 vectors, which is its start and that of a GPU and its libraries; and what faiss
takes for the same: with the reading and writing of the same files, and its calls alone.  Prints a line a step of each round
as soon as it is known, and one with the ratios of both wholes and of both rests, and at last recall@k of both, of the first of
the queries, against exact search.  With --same-index faiss adds to the index that `train` made, and trains last, which may
take it an hour.  With --processor-time seconds are the processor's, of all threads: with --threads 1 what else runs changes
ratios little.  faiss's OpenBLAS has the loops of openblas_loops.py, and its codes of products are trained as with "np" behind
their number: not for their order, which polysemous search alone asks for, and which takes it longer than all the rest.

Needs from PyPI: faiss-cpu (tried with 1.15.1), numpy.
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openblas_loops  # noqa: F401, before faiss
import faiss
import numpy


def drawn(seed, centres, count, columns):
    """Rows around centres that lie near each other."""
    x = numpy.empty((count, columns), "f")

    def draw(begin):
        rng, some = numpy.random.default_rng([seed, begin]), x[begin:begin + 16384]
        rng.standard_normal(some.shape, "f", out=some)
        some *= 0.5
        some += centres[rng.integers(0, len(centres), len(some))]

    with ThreadPoolExecutor() as threads:
        list(threads.map(draw, range(0, count, 16384)))
    return x


def processor_time():
    """Of this process and of commands that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def timed(call):
    begin = clock()
    result = call()
    return clock() - begin, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder with the programs")
    parser.add_argument("strings", nargs="*", default=["Flat", "IVF4096,PQ32", "OPQ32_64,IVF4096,PQ32"], metavar="INDEX")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="of both; 0: one a core")
    parser.add_argument("--vectors", type=int, default=1000000)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--queries", type=int, default=10000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--nprobe", type=int, default=32)
    parser.add_argument("--ef-search", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--exact", type=int, default=10000, help="queries of which recall is told; 0: none")
    parser.add_argument("--same-index", action="store_true", help="faiss goes on from what `train` made, and trains last")
    parser.add_argument("--processor-time", action="store_true", help="seconds of the processor, not of a clock")
    parser.add_argument("--folder", help="where the files go for a while")
    options = parser.parse_intermixed_args()
    global clock
    clock = processor_time if options.processor_time else time.perf_counter
    program = options.programs.resolve() / "mt-retro-index"
    threads = options.threads or os.cpu_count()
    faiss.omp_set_num_threads(threads)
    rng = numpy.random.default_rng(1)
    centres = rng.standard_normal((4096, 32), "f") @ rng.standard_normal((32, options.columns), "f") / 6
    print(f"{options.vectors} x {options.columns}, {options.queries} queries, k {options.k}, nprobe {options.nprobe}, "
          f"{options.device}, {threads} threads; faiss {faiss.__version__}", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = Path(folder)
        x = drawn(2, centres, options.vectors, options.columns)
        queries = drawn(3, centres, options.queries, options.columns)
        numpy.save(folder / "x.npy", x)
        numpy.save(folder / "q.npy", queries)
        nearest = None

        def run(*words):
            with open(folder / "out", "wb") as out:
                subprocess.run([program, *words, "--device", options.device, "-j", str(threads), "--quiet"], check=True,
                               cwd=folder, stdout=out)

        def searched(index):
            base = index
            if isinstance(base, faiss.IndexRefine):
                base = faiss.downcast_index(base.base_index)
            if "IVF" in string:
                text = f"nprobe={options.nprobe}" + (f",quantizer_efSearch={options.ef_search}" if "HNSW" in string else "")
                faiss.ParameterSpace().set_index_parameters(base, text)
            return index.search(queries, options.k)[1]

        def recall(ids):
            return sum(len(set(a) & set(b)) for a, b in zip(ids, nearest)) / nearest.size  # of the first

        def ours(step, few, all_of):
            """Seconds of a command, and of its start."""
            start = timed(lambda: run(step, *few))[0]
            took = timed(lambda: run(step, *all_of))[0]
            print(f"{string:28} {step:6} {took:8.3f} s, start {start:6.3f} s", flush=True)
            return took, start

        def tell(step, took, start, theirs, files):
            print(f"{string:28} {step:6} faiss {theirs + files:8.3f} s, its calls {theirs:8.3f} s: {(theirs + files) / took:6.2f} x, "
                  f"{theirs / max(took - start, 1e-3):6.2f} x", flush=True)

        numpy.save(folder / "few.npy", x[:64])
        searching = ["-k", str(options.k), "--retro-query-nprobe", str(options.nprobe), "--retro-query-ef-search", str(options.ef_search)]
        for string in [string for string in options.strings for _ in range(options.rounds)]:
            reads = timed(lambda: numpy.load(folder / "x.npy"))[0]
            rest = ("--output", "empty", "--force")
            trained = ours("train", ("--index-str", "IVF1,Flat", "few.npy", *rest), ("--index-str", string, "x.npy", *rest))

            def train():
                index = faiss.index_factory(options.columns, string)
                if "IVF" in string and isinstance(ivf := faiss.downcast_index(faiss.extract_index_ivf(index)), faiss.IndexIVFPQ):
                    ivf.do_polysemous_training = False
                theirs = timed(lambda: index.train(x))[0]
                writes = timed(lambda: faiss.write_index(index, str(folder / "theirs")))[0]
                tell("train", *trained, theirs, reads + writes)

            if not options.same_index:
                train()
            reads_empty, index = timed(lambda: faiss.read_index(str(folder / ("empty" if options.same_index else "theirs"))))
            rest = ("--output", "ours", "--force")
            added = ours("add", ("empty", "few.npy", *rest), ("empty", "x.npy", *rest))
            theirs = timed(lambda: index.add(x))[0]
            writes = timed(lambda: faiss.write_index(index, str(folder / "theirs")))[0]
            tell("add", *added, theirs, reads + reads_empty + writes)
            asked = ours("query", ("ours", "few.npy", *searching), ("ours", "q.npy", *searching))
            ids = [json.loads(line)["neighbors"] for line in open(folder / "out")]
            reads_all, index = timed(lambda: faiss.read_index(str(folder / "theirs")))
            theirs, their_ids = timed(lambda: searched(index))
            tell("query", *asked, theirs, reads_all)
            if options.exact > 0:
                if nearest is None:
                    exact = faiss.IndexFlatL2(options.columns)
                    exact.add(x)
                    nearest = exact.search(queries[:options.exact], options.k)[1]
                    del exact
                print(f"{string:28} recall@{options.k} {recall(ids):.4f}, faiss {recall(their_ids):.4f}", flush=True)
            if options.same_index:
                train()


if __name__ == "__main__":
    main()
