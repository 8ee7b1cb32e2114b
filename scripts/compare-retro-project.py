#!/usr/bin/env python3
"""Compares the embeddings, indexes and neighbours of mt-retro-index's project stages with transformers, faiss and Megatron.

    python scripts/compare-retro-project.py build/release/cmd [--cases 6] [--seed 1]

Makes projects of testdata's stories with mt-retro-index's build-db, index-build and query-neighbors.  What transformers' BERT
makes of the chunks that Megatron's own reader has must be what `embed` writes, to 1e-5; faiss opens the trained index, whose
codes of these are those that were added, or as near, and the one that has them; and for all chunks of Megatron's GPTChunkDataset, of its
own samples, Megatron's query_embeddings() on faiss must find neighbours as far as ours, none of a document of the sample.
Prints a line a case; exits with 1 if any differs.

Needs from PyPI: megatron-core==0.12.1, torch, tokenizers, transformers, faiss-cpu, h5py, numpy, tqdm.
"""
import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ.update(MT_DEVICE="cpu")
import faiss  # noqa: E402
import h5py  # noqa: E402
import numpy  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

stub = types.ModuleType("psutil")  # which tells of memory alone
sys.modules.setdefault("psutil", stub)
torch.cuda.current_device = lambda: "cpu"  # before megatron.core asks
torch.Tensor.cuda = lambda self, *args, **kwargs: self
from megatron.core import parallel_state  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder  # noqa: E402
from megatron.core.datasets.retro import utils as retro_utils  # noqa: E402
from megatron.core.datasets.retro.db.utils import get_merged_train_dataset  # noqa: E402
from megatron.core.datasets.retro.query import query as retro_query  # noqa: E402
from megatron.core.datasets.retro.query.gpt_chunk_dataset import GPTChunkDataset  # noqa: E402
from megatron.core.datasets.retro.query.multi_split_gpt_dataset import (  # noqa: E402
    MultiSplitGPTDataset, MultiSplitGPTDatasetConfig)
from megatron.core.datasets.utils import get_blend_from_list  # noqa: E402

if sys.modules["psutil"] is stub:
    del sys.modules["psutil"]
logging.disable(logging.WARNING)
TESTDATA = (Path(__file__).parent.parent / "testdata").resolve()
GPT2 = {"vocab": TESTDATA / "gpt2_bpe" / "vocab.json", "merges": TESTDATA / "gpt2_bpe" / "merges.txt"}
EOD = 379
STRINGS = ["Flat", "IVF8,Flat", "IVF8_HNSW4,PQ4", "OPQ4_8,IVF8,PQ4", "OPQ2,IVF4_HNSW4,Flat"]


class Case:
    def __init__(self, programs, folder, seed):
        rng = random.Random(seed)
        self.programs, self.folder, self.project = programs, folder, folder / "project"
        self.chunk = rng.choice([4, 6, 8])
        self.length = self.chunk * rng.choice([2, 3, 4])
        self.batch, self.samples = 4, 4 * rng.choice([3, 5])
        self.interval, self.evaluations, self.order = rng.choice([2, 3]), 2, rng.randrange(1000)
        self.string, self.block = rng.choice(STRINGS), rng.choice([100, 1000])
        self.fraction = 1 if self.string == "Flat" else rng.choice([1, 0.9])
        self.found, self.kept, self.probes, self.ef = rng.choice([20, 50]), rng.choice([3, 10]), rng.choice([2, 8]), 16
        self.cut = rng.choice([8, 64])

    def run(self, program, *words):
        done = subprocess.run([self.programs / program, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{done.stderr}compare-retro-project: exit code {done.returncode} of {program} {words}")

    def build(self):
        (self.project / "data").mkdir(parents=True)
        for name, part in (("a", slice(0, 40)), ("b", slice(40, 60))):
            lines = (TESTDATA / "stories" / "stories.jsonl").read_text().splitlines(True)[part]
            (self.folder / "lines.jsonl").write_text("".join(lines))
            self.run("mt-preprocess", "--input", "lines.jsonl", "--output-prefix", self.project / "data" / name, "--append-eod",
                     "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", GPT2["vocab"], "--merge-file", GPT2["merges"])
        self.bert = self.folder / "bert"
        self.bert.mkdir()
        for file in (TESTDATA / "models" / "megatron-bert").iterdir():
            (self.bert / file.name).write_bytes(file.read_bytes())
        vocab = json.loads((TESTDATA / "huggingface" / "bert-lower.json").read_text())["model"]["vocab"]
        (self.project / "bert.txt").write_text("".join(word + "\n" for word in sorted(vocab, key=vocab.get)))
        self.paths = ["0.75", "a_text_document", "0.25", "b_text_document"]
        self.run("mt-retro-index", "build-db", "--retro-project-dir", self.project, "--retro-gpt-data-path", *self.paths,
                 "--retro-gpt-split", "80,20,0", "--retro-gpt-chunk-length", self.chunk, "--retro-bert-tokenizer-type",
                 "BertWordPieceLowerCase", "--retro-bert-vocab-file", "bert.txt", "--retro-index-ntrain", 280,
                 "--retro-gpt-seq-length", self.length, "--retro-gpt-train-samples", self.samples,
                 "--retro-gpt-global-batch-size", self.batch, "--retro-gpt-eval-interval", self.interval,
                 "--retro-gpt-eval-iters", self.evaluations, "--retro-gpt-seed", self.order, "--retro-block-size", self.block)
        model = ["--retro-project-dir", self.project, "--load", "bert", "--retro-bert-max-chunk-length", self.cut]
        stage = [*model, "--retro-index-str", self.string, "--retro-index-add-load-fraction", self.fraction]
        self.run("mt-retro-index", "index-build", *stage, "--no-retro-index-delete-added-codes")
        self.run("mt-retro-index", "query-neighbors", *stage, "--retro-query-num-neighbors-query", self.found,
                 "--retro-query-num-neighbors-save", self.kept, "--retro-query-nprobe", self.probes, "--retro-query-ef-search",
                 self.ef)
        self.run("mt-retro-index", "embed", *model, "--output", "chunks.npy")
        self.words = tokenizers.BertWordPieceTokenizer(str(self.project / "bert.txt"), lowercase=True)
        self.model = transformers.MegatronBertModel.from_pretrained(self.bert, torch_dtype=torch.float32).eval()
        self.gpt = tokenizers.ByteLevelBPETokenizer(str(GPT2["vocab"]), str(GPT2["merges"]))

    def embed(self, tokens):
        text = self.gpt.decode([int(token) for token in tokens if token != EOD], skip_special_tokens=False)
        cls, sep, pad = (self.words.token_to_id(word) for word in ("[CLS]", "[SEP]", "[PAD]"))
        ids = self.words.encode(text, add_special_tokens=False).ids[: self.cut - 2] or [pad]
        with torch.no_grad():
            hidden = self.model(torch.tensor([[cls, *ids, sep]])).last_hidden_state
        return hidden[0, 1:-1].mean(0).numpy()

    def datasets(self):
        blend = get_blend_from_list([word if i % 2 == 0 else str(self.project / "data" / word)
                                     for i, word in enumerate(self.paths)])
        config = MultiSplitGPTDatasetConfig(
            random_seed=self.order, sequence_length=self.length, blend=blend, split="80,20,0", split_preprocessing="80,20,0",
            path_to_cache=None, return_document_ids=True, reset_position_ids=False, reset_attention_mask=False,
            eod_mask_loss=False, tokenizer=types.SimpleNamespace(eod=EOD, unique_identifiers={}, pad=EOD))
        valid = (self.samples // self.batch // self.interval + 1) * self.evaluations * self.batch
        counts = {"train": self.samples, "valid": valid}
        built = BlendedMegatronDatasetBuilder(MultiSplitGPTDataset, [self.samples, valid, 0], lambda: True, config).build()
        return {key: (built[i], counts[key]) for i, key in enumerate(counts)}

    def compare(self):
        self.build()
        told = []
        database = get_merged_train_dataset(project_dir=str(self.project), chunk_length=self.chunk, eod_token_id=EOD)
        database.load_doc_tuples()
        ours = numpy.load(self.folder / "chunks.npy")
        # A chunk is padded with ends of document, which are no text.
        theirs = numpy.stack([self.embed(database[i]["text"]) for i in range(len(database))])
        if numpy.abs(ours - theirs).max() > 1e-5:
            told.append(f"embeddings by {numpy.abs(ours - theirs).max()}")
        folder = self.project / "index" / "faiss-par-add" / self.string
        index = faiss.read_index(str(folder / f"added_1.000_{self.fraction:.3f}.faissindex"))
        blocks = sorted((folder / "add_codes").iterdir())
        codes = numpy.concatenate([h5py.File(path)["data"][:] for path in blocks])
        empty = faiss.read_index(str(folder / "empty_1.000.faissindex"))
        right = empty.sa_encode(ours)
        alike = (right == codes).all(1).mean()
        # Of centres that are alike the last bit may choose another, which is as near.
        errors = [((empty.sa_decode(some) - ours) ** 2).sum(1) for some in (codes, right)]
        worse = (errors[0] > errors[1] * 1.001 + 1e-6).mean()
        if worse > 0.005:
            told.append(f"{worse:.4f} of the codes")
        count = sum(int(self.fraction * len(h5py.File(path)["data"])) for path in blocks)
        if index.ntotal != count:
            told.append(f"{index.ntotal} vectors, expected {count}")
        if self.string != "Flat":
            more = f",quantizer_efSearch={self.ef}" if "HNSW" in self.string else ""
            faiss.ParameterSpace().set_index_parameters(index, f"nprobe={self.probes}{more}")
        settings = types.SimpleNamespace(retro_query_num_neighbors_query=self.found, retro_query_num_neighbors_save=self.kept)
        dirs = json.loads((self.project / "config.json").read_text())["retro_neighbor_dirs"]
        wrong = rows = same = 0
        for key, (samples, count) in self.datasets().items():
            chunks = GPTChunkDataset(samples, self.length, self.chunk)
            each = chunks.n_chunks_per_sample
            number = count * each
            embeddings = numpy.stack([self.embed(chunks[i]["text"]) for i in range(number)])
            by_sample = {i: {"dataset_idx": samples[i]["dataset_id"], "doc_ids": samples[i]["document_ids"]} for i in range(count)}
            _, right = retro_query.query_embeddings(settings, database, index, embeddings, (0, number), by_sample, each, False)
            files = sorted((self.project / "query" / dirs[key]).iterdir())
            mine = numpy.concatenate([h5py.File(path)["neighbors"][:] for path in files])
            if mine.shape != right.shape:
                told.append(f"{mine.shape} neighbours of {key}, expected {right.shape}")
                continue
            distances, ids = index.search(embeddings, self.found)
            for row in range(number):
                far = dict(zip(ids[row].tolist(), distances[row].tolist()))
                worst = distances[row].max() if -1 not in ids[row] else numpy.inf
                own = {(int(by_sample[row // each]["dataset_idx"]), int(d)) for d in by_sample[row // each]["doc_ids"]}
                here = [far.get(i, worst) for i in mine[row].tolist() if i >= 0]
                there = [far[i] for i in right[row].tolist() if i >= 0]
                bad = len(here) != len(there) or not numpy.allclose(here, there, rtol=1e-4, atol=1e-5) or any(
                    tuple(int(n) for n in database.doc_tuples[i]) in own for i in mine[row].tolist() if i >= 0)
                wrong += bad
                same += bool((mine[row] == right[row]).all())
                rows += 1
        if wrong > rows // 200:  # a code, or a list, may be another by the last bit
            told.append(f"{wrong} of {rows} rows of neighbours")
        print(f"  {self.string}: {len(database)} chunks, codes alike {alike:.4f}; {same} of {rows} rows are the same, {wrong} differ")
        return ", ".join(told)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder with the programs")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    retro_utils.tqdm = lambda items, *_, **__: items
    faiss.omp_set_num_threads(1)
    wrong = 0
    for case in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as folder:
            differs = Case(options.programs.resolve(), Path(folder), case).compare()
        wrong += differs != ""
        print(f"project {case:4} {'differs: ' + differs if differs else 'equal'}", flush=True)
    print(f"{options.cases} compared, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
