#!/usr/bin/env python3
"""Compares what mt-pretrain reads of a Retro's project, and the losses that it has there, with Megatron's.

    python scripts/compare-retro-training.py build/release/cmd [--cases 6] [--seed 1]

Makes projects of testdata's stories: mt-retro-index build-db, and neighbours at random, by h5py, in the folder of Megatron's
layout.  Megatron's own RetroDataset opens each; the samples of the first step, and which chunks were retrieved for them, must be
those of `mt-pretrain show-batch`.  Then mt-pretrain trains a few steps; what it saves in Megatron's format torch is loaded
into megatron-core's RetroModel, whose mean loss over RetroDataset's first validation samples must be the run's, to 1e-5, and
which must find each token that mt-generate makes of a prompt beside neighbours, the same for each chunk, as likely to 1e-4.
Prints a line a case; exits with 1 if any differs.

Needs from PyPI: megatron-core==0.12.1, torch, tokenizers, h5py, numpy.
"""
import argparse
import contextlib
import importlib.metadata
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
os.environ.update(MT_DEVICE="cpu", NVTE_FLASH_ATTN="0", NVTE_FUSED_ATTN="0")
import h5py  # noqa: E402
import numpy  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402

sys.modules.setdefault("faiss", types.ModuleType("faiss"))  # which reading does not need
torch.cuda.current_device = lambda: "cpu"  # before megatron.core asks
torch.Tensor.cuda = lambda self, *args, **kwargs: self
import megatron.core.tensor_parallel.random as megatron_random  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder  # noqa: E402
from megatron.core.datasets.retro import utils as retro_utils  # noqa: E402
from megatron.core.datasets.retro.query.multi_split_gpt_dataset import (  # noqa: E402
    MultiSplitGPTDataset, MultiSplitGPTDatasetConfig)
from megatron.core.datasets.retro.query.retro_dataset import get_retro_datasets  # noqa: E402
from megatron.core.datasets.utils import get_blend_from_list  # noqa: E402
from megatron.core.models.retro import RetroConfig, RetroModel  # noqa: E402
from megatron.core.models.retro import config as retro_config  # noqa: E402
from megatron.core.models.retro.decoder_spec import get_retro_decoder_block_spec  # noqa: E402

retro_config.is_te_min_version = lambda version: False  # there is none
megatron_random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()
logging.disable(logging.WARNING)

TESTDATA = (Path(__file__).parent.parent / "testdata").resolve()
GPT2 = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", TESTDATA / "gpt2_bpe" / "vocab.json",
        "--merge-file", TESTDATA / "gpt2_bpe" / "merges.txt"]
EOD = 379


class Case:
    def __init__(self, programs, folder, seed):
        rng = random.Random(seed)
        self.programs, self.folder, self.project = programs, folder, folder / "project"
        self.chunk = rng.choice([4, 8, 16])
        self.length = self.chunk * rng.choice([2, 3, 4])
        self.batch, self.samples = 4, 4 * rng.choice([3, 5])
        self.interval, self.evaluations, self.order = rng.choice([2, 3]), 2, rng.randrange(1000)
        self.neighbors, self.retrieved, self.saved = rng.choice([1, 2, 3]), rng.choice([1, 2]), 4
        self.layers = rng.choice([6, 7, 9])
        self.llama = rng.random() < 0.5
        self.block = rng.choice([10, 1000])
        self.numpy = numpy.random.RandomState(seed)

    def run(self, program, *words):
        done = subprocess.run([self.programs / program, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{done.stderr}compare-retro-training: exit code {done.returncode} of {program}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def build(self):
        (self.project / "data").mkdir(parents=True)
        for name, part in (("a", slice(0, 40)), ("b", slice(40, 60))):
            lines = (TESTDATA / "stories" / "stories.jsonl").read_text().splitlines(True)[part]
            (self.folder / "lines.jsonl").write_text("".join(lines))
            self.run("mt-preprocess", "--input", "lines.jsonl", "--output-prefix", self.project / "data" / name, "--append-eod",
                     *GPT2)
        self.paths = ["0.75", "a_text_document", "0.25", "b_text_document"]
        self.run("mt-retro-index", "build-db", "--retro-project-dir", self.project, "--retro-gpt-data-path", *self.paths,
                 "--retro-gpt-split", "80,20,0", "--retro-gpt-chunk-length", self.chunk, "--retro-bert-tokenizer-type",
                 "BertWordPieceLowerCase", "--retro-bert-vocab-file", TESTDATA / "wordpiece" / "vocab.txt",
                 "--retro-index-ntrain", 10, "--retro-gpt-seq-length", self.length, "--retro-gpt-train-samples", self.samples,
                 "--retro-gpt-global-batch-size", self.batch, "--retro-gpt-eval-interval", self.interval,
                 "--retro-gpt-eval-iters", self.evaluations, "--retro-gpt-seed", self.order, "--retro-block-size", self.block)
        with h5py.File(self.project / "db" / "merged" / "train.hdf5") as file:
            database = len(file["chunks"])
        iterations = self.samples // self.batch
        self.counts = {"train": self.samples, "valid": (iterations // self.interval + 1) * self.evaluations * self.batch}
        for split, count in self.counts.items():
            rows = count * (self.length // self.chunk)
            neighbors = self.numpy.randint(-1, database, size=(rows, self.saved)).astype("int64")
            query = self.project / "query" / split
            query.mkdir(parents=True)
            for begin in range(0, rows, self.block):
                end = min(begin + self.block, rows)
                with h5py.File(query / f"{begin:05}-{end:05}.hdf5", "w") as file:
                    file.create_dataset("neighbors", data=neighbors[begin:end])
        config = json.loads((self.project / "config.json").read_text())
        config["retro_neighbor_dirs"] = {"train": "train", "valid": "valid", "test": None}
        (self.project / "config.json").write_text(json.dumps(config, indent=4, sort_keys=True))

    def datasets(self):
        """Megatron's, of training and validation."""
        blend = get_blend_from_list([word if i % 2 == 0 else str(self.project / "data" / word)
                                     for i, word in enumerate(self.paths)])
        config = MultiSplitGPTDatasetConfig(
            random_seed=self.order, sequence_length=self.length, blend=blend, split="80,20,0", split_preprocessing="80,20,0",
            path_to_cache=None, return_document_ids=False, reset_position_ids=False, reset_attention_mask=False,
            eod_mask_loss=False, tokenizer=types.SimpleNamespace(eod=EOD, unique_identifiers={}, pad=EOD))
        built = BlendedMegatronDatasetBuilder(
            MultiSplitGPTDataset, [self.counts["train"], self.counts["valid"], 0], lambda: True, config).build()
        settings = types.SimpleNamespace(
            retro_project_dir=str(self.project), retro_chunk_length=self.chunk, retro_block_size=self.block,
            retro_neighbor_dirs={"train": "train", "valid": "valid"}, retro_verify_neighbor_count=True,
            retro_num_neighbors=self.neighbors, retro_num_retrieved_chunks=self.retrieved)
        gpt = {"train": (built[0], self.counts["train"]), "valid": (built[1], self.counts["valid"]), "test": (None, 0)}
        return get_retro_datasets(settings, gpt, self.length, EOD)[:2]

    def flags(self):
        flags = ["--retro-project-dir", "project", "--retro-add-retriever", "--retro-num-neighbors", self.neighbors,
                 "--retro-num-retrieved-chunks", self.retrieved, "--num-layers", self.layers, "--hidden-size", 16,
                 "--num-attention-heads", 2, "--ffn-hidden-size", 40, "--micro-batch-size", 2, "--lr", 0.01, "--make-vocab-size-divisible-by", 1,
                 "--max-position-embeddings", 64, "--hidden-dropout", 0, "--attention-dropout", 0,
                 "--retro-encoder-hidden-dropout", 0, "--retro-encoder-attention-dropout", 0, "--init-method-std", 0.1]
        if self.llama:
            flags += ["--swiglu", "--normalization", "RMSNorm", "--disable-bias-linear", "--position-embedding-type", "rope",
                      "--untie-embeddings-and-output-weights"]
        return flags

    def model(self):
        settings = dict(gated_linear_unit=True, activation_func=torch.nn.functional.silu, normalization="RMSNorm",
                        add_bias_linear=False) if self.llama else dict(bias_activation_fusion=True)
        more = dict(position_embedding_type="rope", share_embeddings_and_output_weights=False) if self.llama else dict(
            share_embeddings_and_output_weights=True)
        file = next((self.folder / "ckpt").rglob("model_optim_rng.pt"))
        saved = torch.load(file, weights_only=False)
        config = RetroConfig(
            num_layers=self.layers, hidden_size=16, num_attention_heads=2, ffn_hidden_size=saved["args"].ffn_hidden_size, use_cpu_initialization=True,
            hidden_dropout=0.0, attention_dropout=0.0, layernorm_epsilon=1e-5, retro_encoder_hidden_dropout=0.0,
            retro_encoder_attention_dropout=0.0, retro_chunk_length=self.chunk, retro_num_neighbors=self.neighbors,
            retro_num_retrieved_chunks=self.retrieved, retro_split_preprocessing="80,20,0", **settings)
        model = RetroModel(config=config, transformer_layer_spec=get_retro_decoder_block_spec(config, False),
                           vocab_size=saved["args"].padded_vocab_size, max_sequence_length=64, parallel_output=True, **more)
        state = {}
        for name, value in saved["model"].items():
            for fused, own in (("self_attention.linear_qkv.layer_norm_", "input_layernorm."),
                               ("mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm.")):
                name = name.replace(fused, own)
            if isinstance(value, torch.Tensor):
                state[name] = value
        missing, unexpected = model.load_state_dict(state, strict=False)
        missing = [name for name in missing if not name.endswith("_extra_state")]
        unexpected = [name for name in unexpected if not name.endswith("_extra_state")]
        if missing or unexpected:
            sys.exit(f"compare-retro-training: the checkpoint lacks {missing}, and has {unexpected}")
        return model

    def loss(self, model, dataset, count):
        samples = [dataset[i] for i in range(count)]
        text = torch.tensor(numpy.stack([sample["text"] for sample in samples]).astype("int64"))
        neighbors = torch.tensor(numpy.stack([sample["neighbor_tokens"] for sample in samples]).astype("int64"))
        neighbors = neighbors.view(-1, self.retrieved * self.chunk)
        hidden = torch.triu(torch.ones(1, 1, self.length, self.length, dtype=torch.bool), 1)

        def positions(ids):
            return torch.arange(ids.shape[1]).expand(ids.shape)

        ids = text[:, :-1].contiguous()
        with torch.no_grad():
            losses = model.eval()(ids, positions(ids), hidden, neighbors, positions(neighbors), torch.zeros(1, 1, dtype=torch.bool),
                                  labels=text[:, 1:].contiguous())
        return float(losses.mean())

    def generated(self, model):
        """What differs in a text that mt-generate makes."""
        rng = numpy.random.RandomState(self.order)
        words = (TESTDATA / "stories" / "stories.jsonl").read_text().split()
        prompt, *texts = (" ".join(rng.choice(words, count)) for count in (4, *[6] * self.neighbors))
        (self.folder / "prompt.jsonl").write_text(json.dumps({"prompt": prompt, "neighbors": texts}) + "\n")
        with open(self.folder / "prompt.jsonl") as stdin:
            done = subprocess.run([self.programs / "mt-generate", "--load", "ckpt", "--temperature", "0", "--num-tokens", "5",
                                   "--ignore-eod", "--json", "--logprobs", "0"], cwd=self.folder, stdin=stdin,
                                  capture_output=True, text=True)
        if done.returncode:
            return done.stderr
        made = json.loads(done.stdout)
        gpt = tokenizers.ByteLevelBPETokenizer(*map(str, (GPT2[3], GPT2[5])))
        ids = gpt.encode(prompt).ids
        neighbors = [(gpt.encode(text).ids + [EOD] * 1000)[: self.retrieved * self.chunk] for text in texts]
        for token, said in zip(made["token_ids"], [one["logprob"] for one in made["logprobs"]], strict=True):
            chunks = -(-len(ids) // self.chunk)
            found = torch.tensor(neighbors * chunks)
            mask = torch.triu(torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool), 1)
            with torch.no_grad():
                logits = model.eval()(torch.tensor([ids]), torch.arange(len(ids))[None], mask, found,
                                      torch.arange(found.shape[1]).expand(found.shape), torch.zeros(1, 1, dtype=torch.bool))
            right = float(torch.log_softmax(logits[0, -1].double(), 0)[token])
            if abs(said - right) > 1e-4 * max(1, abs(right)):
                return f"token {token} behind {len(ids)}: log-probability {said}, expected {right}"
            ids.append(token)
        return ""

    def compare(self):
        self.build()
        train, valid = self.datasets()
        flags = self.flags()
        for sample in self.run("mt-pretrain", "show-batch", 1, *flags, "--json"):
            theirs = train[sample["sample"]]["neighbor_chunks"].reshape(-1, self.retrieved).tolist()
            if [n["retrieved"] for n in sample["neighbors"]] != theirs:
                return f"sample {sample['sample']}: {sample['neighbors']}, expected {theirs}"
        self.run("mt-pretrain", *flags, "--save", "ckpt", "--ckpt-format", "torch", "--quiet")
        events = [json.loads(line) for line in (self.folder / "ckpt" / "run.jsonl").read_text().splitlines()]
        losses = [event for event in events if event.get("event") == "eval" and event["split"] == "valid"]
        mine = losses[-1]["loss"]
        # Each evaluation goes on in the validation samples.
        end = len(losses) * self.evaluations * self.batch
        begin = end - self.evaluations * self.batch
        part = [valid[i] for i in range(begin, end)]
        model = self.model()
        right = self.loss(model, part, len(part))
        print(f"  loss {mine}, Megatron's {right}")
        if abs(mine - right) > 1e-5 * right:
            return f"loss {mine}, expected {right}"
        return self.generated(model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder with the programs")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    retro_utils.tqdm = lambda items, *_, **__: items
    print(f"megatron-core {importlib.metadata.version('megatron-core')}")
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
