#!/usr/bin/env python3
"""Compare mt-retro-index build-db with Megatron's own chunk database.

    python scripts/compare-retro.py build/release/cmd [--cases 20] [--seed 1]

Makes projects of random texts, splits, weights, chunks and blocks; runs `mt-retro-index build-db` and
megatron-core's build_db() on the same token files, with transformers' tokenizers of the same vocabularies; and
compares every array of every file of the two by h5py, with its type, and indexed_dataset_infos.json byte for byte.
Then Megatron's readers open what mt-retro-index made, and it what Megatron made.  Prints a line a case; exits with 1 if any differs.

Needs from PyPI: megatron-core==0.12.1, torch, transformers (tried with 4.51.3), h5py, numpy.
"""
import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy
import torch
from transformers import BertTokenizer, GPT2Tokenizer  # before faiss is stood in for

sys.modules.setdefault("faiss", types.ModuleType("faiss"))  # which a database does not need
import h5py  # noqa: E402
from megatron.core.datasets.retro import utils as retro_utils  # noqa: E402
from megatron.core.datasets.retro.db import build, utils as db_utils  # noqa: E402

TESTDATA = Path(__file__).parent.parent / "testdata"
GPT2 = ["vocab.json", "merges.txt"]


def alone():
    """Megatron's code for one process without a GPU."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.cuda.LongTensor = torch.LongTensor
    retro_utils.parallel_state.get_data_parallel_rank = lambda: 0
    retro_utils.parallel_state.get_data_parallel_world_size = lambda: 1
    build.ProcessPoolExecutor = lambda max_workers: concurrent.futures.ThreadPoolExecutor(1)
    for module in (build, retro_utils):
        module.tqdm = lambda items, *_, **__: items


class Gpt:
    def __init__(self):
        self.tokenizer = GPT2Tokenizer(*(TESTDATA / "gpt2_bpe" / name for name in GPT2))
        self.eod = self.tokenizer.convert_tokens_to_ids("<|endoftext|>")

    def detokenize(self, ids):
        return self.tokenizer.decode(ids, clean_up_tokenization_spaces=False)


class Bert:
    def __init__(self, lower):
        self.tokenizer = BertTokenizer(str(TESTDATA / "wordpiece" / "vocab.txt"), do_lower_case=lower)

    def tokenize(self, text):
        return self.tokenizer.tokenize(text)


WORDS = ["Tom", "has", "two", "nuts", "caf\u00e9", "\u65e5\u672c", "...", "\n", "\t \n", "  ", "\u00a0", "\U0001f600", "1,000",
         "it's", "\u200b", "na\u00efve", "(a)", "x" * 30]


def text_of(rng):
    if rng.random() < 0.1:
        return rng.choice([" ", "\n\n", "\t" * 20, "\u3000 "])
    return "".join(rng.choice(WORDS) + rng.choice(["", " ", "  "]) for _ in range(rng.randrange(1, 60)))


def arrays(path):
    with h5py.File(path, "r") as file:
        return {name: numpy.copy(file[name]) for name in file}


def shaped(array):
    """An empty list of numpy's, which has one dimension and 64-bit numbers' rows, as rows of 4."""
    return array.reshape(0, 4) if array.shape == (0,) else array


def difference(mine, right):
    names = sorted(str(p.relative_to(right)) for p in right.rglob("*.hdf5"))
    if names != sorted(str(p.relative_to(mine)) for p in mine.rglob("*.hdf5")):
        return f"files: expected {names}"
    for name in names:
        here, there = arrays(mine / name), arrays(right / name)
        if here.keys() != there.keys():
            return f"{name}: {sorted(here)}, expected {sorted(there)}"
        for key in there:
            a, b = here[key], shaped(there[key])
            if a.dtype != b.dtype or not numpy.array_equal(a, b):
                return f"{name}: {key}: {a.dtype} {a.shape}, expected {b.dtype} {b.shape}"
    infos = "indexed_dataset_infos.json"
    if (mine / infos).read_bytes() != (right / infos).read_bytes():
        return f"{infos}: {(mine / infos).read_text()}, expected {(right / infos).read_text()}"
    return ""


def opened(project, settings):
    """What is wrong with what Megatron's readers make of it."""
    datasets = db_utils.get_merged_datasets(str(project), settings["chunk_length"], Gpt().eod)
    infos = db_utils.get_indexed_dataset_infos(str(project))
    for name, dataset in datasets.items():
        for i in range(len(dataset)):
            of, document, begin, end, _ = (int(n) for n in dataset.chunks[i])
            text = dataset[i]["text"]
            if not numpy.array_equal(text[: end - begin], infos[of]["dataset"].get(document)[begin:end]):
                return f"{name}: chunk {i}"
    return ""


def shown(programs, project):
    """What mt-retro-index prints of the chunks."""
    return [subprocess.run([programs / "mt-retro-index", "cat", "--retro-project-dir", project, "--db", name],
                           check=True, capture_output=True).stdout for name in ("train", "valid", "sampled")]


def compare(programs, folder, seed):
    rng = random.Random(seed)
    project, right = folder / "mt", folder / "megatron"
    (project / "data").mkdir(parents=True)
    (right / "db").mkdir(parents=True)
    (right / "data").symlink_to(project / "data")
    settings = {"chunk_length": rng.choice([4, 16, 64]), "split": rng.choice(["98,2,0", "60,40,0", "100,0,0", "33.3,33.3,33.4"]),
                "block": rng.choice([7, 100, 1000]), "lower": rng.random() < 0.5}
    gpt, bert = Gpt(), Bert(settings["lower"])
    blend = []
    for name in ["a", "some/b"][: rng.randrange(1, 3)]:
        lines = folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"text": text_of(rng)}) + "\n" for _ in range(rng.randrange(20, 300))))
        prefix = project / "data" / name
        prefix.parent.mkdir(exist_ok=True)
        tokenizer = ["--vocab-file", TESTDATA / "gpt2_bpe" / GPT2[0], "--merge-file", TESTDATA / "gpt2_bpe" / GPT2[1]]
        end = ["--append-eod"] if rng.random() < 0.8 else []
        subprocess.run([programs / "mt-preprocess", "--quiet", "--input", lines, "--output-prefix", prefix,
                        "--tokenizer-type", "GPT2BPETokenizer", *tokenizer, *end], check=True)
        blend += [str(rng.choice([1, 0.25, 3])), name + "_text_document"]
    ntrain = rng.randrange(1, 8)
    kind = "BertWordPieceLowerCase" if settings["lower"] else "BertWordPieceCase"
    subprocess.run([programs / "mt-retro-index", "build-db", "--quiet", "--retro-project-dir", project,
                    "--retro-gpt-data-path", *blend, "--retro-gpt-split", settings["split"],
                    "--retro-gpt-chunk-length", str(settings["chunk_length"]), "--retro-doc-block-size", str(settings["block"]),
                    "--retro-bert-tokenizer-type", kind, "--retro-bert-vocab-file", (TESTDATA / "wordpiece" / "vocab.txt").resolve(),
                    "--retro-index-ntrain", str(ntrain)], check=True)
    data = types.SimpleNamespace(config=types.SimpleNamespace(split=settings["split"]))
    build.build_db(types.SimpleNamespace(
        retro_project_dir=str(right), retro_gpt_data_path=blend, retro_gpt_chunk_length=settings["chunk_length"],
        retro_doc_block_size=settings["block"], retro_task_validate=None, retro_index_ntrain=ntrain,
        retro_tokenizers=types.SimpleNamespace(gpt=gpt, bert=bert),
        retro_gpt_chunk_datasets=types.SimpleNamespace(train={"dataset": types.SimpleNamespace(sample_dataset=data)})))
    if shown(programs, project) != shown(programs, right):
        return "chunks as mt-retro-index cat prints them"
    return difference(project / "db", right / "db") or opened(project, settings)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder with the programs")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    alone()
    wrong = 0
    for case in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as folder:
            differs = compare(options.programs.resolve(), Path(folder), case)
        wrong += differs != ""
        print(f"database {case:4} {'differs: ' + differs if differs else 'equal'}", flush=True)
    print(f"{options.cases} compared, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    main()
