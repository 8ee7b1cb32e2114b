#!/usr/bin/env python3
"""Writes testdata/model/biencoder.golden and biencoder-shared.golden: tiny models of two towers, in float64.

    scripts/make-biencoder-goldens.py testdata/model     needs transformers 4.51.3 and torch

A tower is transformers' MegatronBertModel without a pooler; its vector of a text is the hidden state of the first token,
or a linear module's projection of that.  Losses are Megatron-LM core_v0.12.1's (pretrain_ict.py): log-softmax of the
products of each query with the contexts of the whole batch.  The first model has two towers, a projection, and scores
divided by the square root of the hidden size; in the second one tower makes both, and each query brings two contexts, the
first of which is its own.  Weights are functions of the order of their names in Megatron-Core and of their elements.  Lines
of a file, but for the first, are a name and numbers: `losses` of the queries, `before`, how many contexts are before the own
one, `gradient NAME` of the mean loss, and for each of twenty steps of AdamW `step`, the loss and the gradients' norm before
it is clipped.
"""
import os
import sys

import torch
import transformers

LAYERS, HIDDEN, HEADS, VOCABULARY, LENGTH, WAVE, STEPS = 2, 8, 2, 16, 6, 0.2, 20
HEAD = HIDDEN // HEADS
QUERIES = [3, 6, 4]  # tokens of each text
CASES = {"biencoder": (["query_model", "context_model"], 5, True, [6, 4, 5]),
         "biencoder-shared": (["shared_model"], 0, False, [6, 2, 4, 5, 3, 6])}


def shapes(towers, projection):
    rows = {}
    for tower in towers:
        linear = {f"{tower}.projection_enc": (projection, HIDDEN)} if projection else {}
        norms = [f"{tower}.encoder.final_layernorm"]
        for i in range(LAYERS):
            at = f"{tower}.encoder.layers.{i}."
            norms += [at + "input_layernorm", at + "pre_mlp_layernorm"]
            linear[at + "self_attention.linear_qkv"] = (3 * HIDDEN, HIDDEN)
            linear[at + "self_attention.linear_proj"] = (HIDDEN, HIDDEN)
            linear[at + "mlp.linear_fc1"] = (4 * HIDDEN, HIDDEN)
            linear[at + "mlp.linear_fc2"] = (HIDDEN, 4 * HIDDEN)
        for name, count in [("word", VOCABULARY), ("position", LENGTH), ("tokentype", 2)]:
            rows[f"{tower}.embedding.{name}_embeddings.weight"] = (count, HIDDEN)
        for name, shape in linear.items():
            rows |= {name + ".weight": shape, name + ".bias": shape[:1]}
        for name in norms:
            rows |= {name + ".weight": (HIDDEN,), name + ".bias": (HIDDEN,)}
    return dict(sorted(rows.items()))


def make_rows(towers, projection):
    rows = {}
    for t, (name, shape) in enumerate(shapes(towers, projection).items()):
        i = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
        wave = torch.sin(0.7 * i + 0.9 * t).reshape(shape)
        scale = "norm" in name and name.endswith("weight")
        rows[name] = (1 + WAVE / 2 * wave if scale else WAVE * wave).requires_grad_()
    return rows


def bert_state(rows, tower):
    """transformers' names; Megatron-Core has each head's query, key and value next to each other."""
    state = {f"embeddings.{theirs}.weight": rows[f"{tower}.embedding.{ours}.weight"]
             for ours, theirs in {"word_embeddings": "word_embeddings", "position_embeddings": "position_embeddings",
                                  "tokentype_embeddings": "token_type_embeddings"}.items()}
    for param in ["weight", "bias"]:
        state[f"encoder.ln.{param}"] = rows[f"{tower}.encoder.final_layernorm.{param}"]
    for i in range(LAYERS):
        at, to = f"{tower}.encoder.layers.{i}.", f"encoder.layer.{i}."
        for ours, theirs in {"input_layernorm": "attention.ln", "pre_mlp_layernorm": "ln",
                             "self_attention.linear_proj": "attention.output.dense",
                             "mlp.linear_fc1": "intermediate.dense", "mlp.linear_fc2": "output.dense"}.items():
            for param in ["weight", "bias"]:
                state[f"{to}{theirs}.{param}"] = rows[f"{at}{ours}.{param}"]
        for param in ["weight", "bias"]:
            qkv = rows[f"{at}self_attention.linear_qkv.{param}"]
            parts = qkv.reshape(HEADS, 3, HEAD, -1)
            for j, theirs in enumerate(["query", "key", "value"]):
                part = parts[:, j].reshape(HIDDEN, *qkv.shape[1:])
                state[f"{to}attention.self.{theirs}.{param}"] = part
    return state


def texts(lengths, first):
    """Token k of text i is 1 + (7 i + 3 k + first) mod 15; padding is 0."""
    ids = torch.zeros(len(lengths), LENGTH, dtype=torch.long)
    for i, length in enumerate(lengths):
        ids[i, :length] = torch.tensor([1 + (7 * i + 3 * k + first) % (VOCABULARY - 1) for k in range(length)])
    mask = torch.arange(LENGTH)[None] < torch.tensor(lengths)[:, None]
    return ids, mask.long()


class Model:
    def __init__(self):
        config = transformers.MegatronBertConfig(
            vocab_size=VOCABULARY, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            intermediate_size=4 * HIDDEN, max_position_embeddings=LENGTH, type_vocab_size=2, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-5)
        self.bert = transformers.MegatronBertModel(config, add_pooling_layer=False).double().eval()

    def vectors(self, rows, tower, ids, mask):
        state = {"embeddings.position_ids": torch.arange(LENGTH)[None]} | bert_state(rows, tower)
        hidden = torch.func.functional_call(self.bert, state, (ids,), {"attention_mask": mask}).last_hidden_state[:, 0]
        name = f"{tower}.projection_enc"
        if name + ".weight" in rows:
            hidden = torch.nn.functional.linear(hidden, rows[name + ".weight"], rows[name + ".bias"])
        return hidden


def scores_of(model, rows, case):
    towers, _, scaled, contexts = CASES[case]
    q = model.vectors(rows, towers[0], *texts(QUERIES, 0))
    c = model.vectors(rows, towers[-1], *texts(contexts, 5))
    scores = q @ c.T
    return scores / HIDDEN**0.5 if scaled else scores


def write(case, folder):
    towers, projection, _, contexts = CASES[case]
    model, rows = Model(), make_rows(towers, projection)
    own = torch.arange(len(QUERIES)) * (len(contexts) // len(QUERIES))

    def losses():
        return torch.nn.functional.cross_entropy(scores_of(model, rows, case), own, reduction="none")

    with open(os.path.join(folder, case + ".golden"), "w", encoding="ascii") as out:
        def numbers(name, values):
            print(name, *(f"{float(x):.12g}" for x in values), file=out)

        print(f"# transformers {transformers.__version__}, torch {torch.__version__}", file=out)
        of = losses()
        numbers("losses", of.detach())
        scores = scores_of(model, rows, case).detach()
        numbers("before", [(scores[i] > scores[i, own[i]]).sum() for i in range(len(QUERIES))])
        of.mean().backward()
        for name, row in rows.items():
            numbers(f"gradient {name}", row.grad.flatten())
        optimizer = torch.optim.AdamW(
            [{"params": [row for row in rows.values() if row.dim() > 1], "weight_decay": 0.01},
             {"params": [row for row in rows.values() if row.dim() == 1], "weight_decay": 0}],
            lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = losses().mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(list(rows.values()), 1.0)
            numbers("step", [loss.detach(), norm])
            optimizer.step()


for name in CASES:
    write(name, sys.argv[1])
