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
import json
import types

import faiss
import h5py
import numpy
import tokenizers
import torch
import transformers

from retro_cases import EOD, MERGES, TESTDATA, VOCAB, RetroCase, compare_cases
from megatron.core.datasets.retro.db.utils import get_merged_train_dataset
from megatron.core.datasets.retro.query import query as retro_query
from megatron.core.datasets.retro.query.gpt_chunk_dataset import GPTChunkDataset

faiss.omp_set_num_threads(1)
STRINGS = ["Flat", "IVF8,Flat", "IVF8_HNSW4,PQ4", "OPQ4_8,IVF8,PQ4", "OPQ2,IVF4_HNSW4,Flat"]


class Case(RetroCase):
    def __init__(self, programs, folder, seed):
        super().__init__(programs, folder, seed, [4, 6, 8], [100, 1000])
        rng = self.rng
        self.string = rng.choice(STRINGS)
        self.fraction = 1 if self.string == "Flat" else rng.choice([1, 0.9])
        self.found, self.kept, self.probes, self.ef = rng.choice([20, 50]), rng.choice([3, 10]), rng.choice([2, 8]), 16
        self.cut = rng.choice([8, 64])

    def build(self):
        self.project.mkdir()
        self.bert = self.folder / "bert"
        self.bert.mkdir()
        for file in (TESTDATA / "models" / "megatron-bert").iterdir():
            (self.bert / file.name).write_bytes(file.read_bytes())
        vocab = json.loads((TESTDATA / "huggingface" / "bert-lower.json").read_text())["model"]["vocab"]
        (self.project / "bert.txt").write_text("".join(word + "\n" for word in sorted(vocab, key=vocab.get)))
        self.build_db("bert.txt", 280)
        model = ["--retro-project-dir", self.project, "--load", "bert", "--retro-bert-max-chunk-length", self.cut]
        stage = [*model, "--retro-index-str", self.string, "--retro-index-add-load-fraction", self.fraction]
        self.run("mt-retro-index", "index-build", *stage, "--no-retro-index-delete-added-codes")
        self.run("mt-retro-index", "query-neighbors", *stage, "--retro-query-num-neighbors-query", self.found,
                 "--retro-query-num-neighbors-save", self.kept, "--retro-query-nprobe", self.probes, "--retro-query-ef-search",
                 self.ef)
        self.run("mt-retro-index", "embed", *model, "--output", "chunks.npy")
        self.words = tokenizers.BertWordPieceTokenizer(str(self.project / "bert.txt"), lowercase=True)
        self.model = transformers.MegatronBertModel.from_pretrained(self.bert, torch_dtype=torch.float32).eval()
        self.gpt = tokenizers.ByteLevelBPETokenizer(str(VOCAB), str(MERGES))

    def embed(self, tokens):
        text = self.gpt.decode([int(token) for token in tokens if token != EOD], skip_special_tokens=False)
        cls, sep, pad = (self.words.token_to_id(word) for word in ("[CLS]", "[SEP]", "[PAD]"))
        ids = self.words.encode(text, add_special_tokens=False).ids[: self.cut - 2] or [pad]
        with torch.no_grad():
            hidden = self.model(torch.tensor([[cls, *ids, sep]])).last_hidden_state
        return hidden[0, 1:-1].mean(0).numpy()

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
        for key, (samples, count) in self.gpt_datasets(return_document_ids=True).items():
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


if __name__ == "__main__":
    compare_cases(__doc__, Case)
