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
import contextlib
import json
import subprocess
import sys
import types

import h5py
import numpy
import tokenizers
import torch

from retro_cases import EOD, MERGES, TESTDATA, VOCAB, RetroCase, compare_cases
import megatron.core.tensor_parallel.random as megatron_random
from megatron.core.datasets.retro.query.retro_dataset import get_retro_datasets
from megatron.core.models.retro import RetroConfig, RetroModel
from megatron.core.models.retro import config as retro_config
from megatron.core.models.retro.decoder_spec import get_retro_decoder_block_spec

retro_config.is_te_min_version = lambda version: False  # there is none
megatron_random.CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()


class Case(RetroCase):
    def __init__(self, programs, folder, seed):
        super().__init__(programs, folder, seed, [4, 8, 16], [10, 1000])
        rng = self.rng
        self.neighbors, self.retrieved, self.saved = rng.choice([1, 2, 3]), rng.choice([1, 2]), 4
        self.layers = rng.choice([6, 7, 9])
        self.llama = rng.random() < 0.5
        self.numpy = numpy.random.RandomState(seed)

    def build(self):
        self.build_db(TESTDATA / "wordpiece" / "vocab.txt", 10)
        with h5py.File(self.project / "db" / "merged" / "train.hdf5") as file:
            database = len(file["chunks"])
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
        settings = types.SimpleNamespace(
            retro_project_dir=str(self.project), retro_chunk_length=self.chunk, retro_block_size=self.block,
            retro_neighbor_dirs={"train": "train", "valid": "valid"}, retro_verify_neighbor_count=True,
            retro_num_neighbors=self.neighbors, retro_num_retrieved_chunks=self.retrieved)
        gpt = {**self.gpt_datasets(return_document_ids=False), "test": (None, 0)}
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
        gpt = tokenizers.ByteLevelBPETokenizer(str(VOCAB), str(MERGES))
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


if __name__ == "__main__":
    compare_cases(__doc__, Case)
