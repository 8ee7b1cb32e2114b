#!/usr/bin/env python3
"""Compare mt-eval's perplexity, and mt-generate's greedy text, with those of transformers' GPT-2.

The checkpoint, one that mt-pretrain or Megatron-LM has written (torch_dist, learned positions, LayerNorm,
tied embeddings, biases), is read with torch.distributed.checkpoint, and its weights without the padding of
the vocabulary become a GPT2LMHeadModel.  Its windows of every text, the end-of-document token in front, are
those of Megatron's WIKITEXT103 task (--seq-length, --overlapping-eval); each is one plain forward in fp32.
Both sides must agree on every text's nll to 1e-5 and on the perplexity to 1e-4, relatively; and on 64 tokens
behind the first 16 of each of the first texts that are long enough, unless two tokens are equally likely
to 1e-5.

Needs from PyPI: torch, transformers (tried with 2.15.0 and 5.23.0).
Run:  scripts/compare-perplexity.py BIN CKPT/iter_N TEXTS.jsonl [--overlapping-eval N] [--seq-length N] [--texts N]
BIN holds mt-eval, mt-generate and mt-preprocess; the texts' `text` members are evaluated.
"""
import argparse
import json
import math
import subprocess
import sys

import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
import transformers

KINDS = {  # Megatron's key, its transposition and Hugging Face's key
    "self_attention.linear_qkv.layer_norm_weight": (False, "ln_1.weight"),
    "self_attention.linear_qkv.layer_norm_bias": (False, "ln_1.bias"),
    "self_attention.linear_proj.weight": (True, "attn.c_proj.weight"),
    "self_attention.linear_proj.bias": (False, "attn.c_proj.bias"),
    "mlp.linear_fc1.layer_norm_weight": (False, "ln_2.weight"),
    "mlp.linear_fc1.layer_norm_bias": (False, "ln_2.bias"),
    "mlp.linear_fc1.weight": (True, "mlp.c_fc.weight"),
    "mlp.linear_fc1.bias": (False, "mlp.c_fc.bias"),
    "mlp.linear_fc2.weight": (True, "mlp.c_proj.weight"),
    "mlp.linear_fc2.bias": (False, "mlp.c_proj.bias"),
}


def read_checkpoint(folder):
    """The settings and the model's tensors."""
    args = torch.load(f"{folder}/common.pt", weights_only=False)["args"]
    reader = dcp.FileSystemReader(folder)
    tensors = {
        key: torch.empty(entry.size, dtype=entry.properties.dtype)
        for key, entry in reader.read_metadata().state_dict_metadata.items()
        if hasattr(entry, "size") and not key.startswith("optimizer.")
    }
    dcp.load(tensors, storage_reader=reader, no_dist=True)
    return args, tensors


def qkv(tensor, heads):
    """From [head][q, k, v][channel] rows to [q, k, v][head][channel], as Conv1D has them."""
    parts = tensor.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
    return parts.t().contiguous() if parts.dim() == 2 else parts


def build_model(args, tensors, vocab):
    config = transformers.GPT2Config(
        vocab_size=vocab, n_positions=args.max_position_embeddings, n_embd=args.hidden_size,
        n_layer=args.num_layers, n_head=args.num_attention_heads, n_inner=args.ffn_hidden_size,
        activation_function="gelu_new" if args.bias_gelu_fusion else "gelu",
        layer_norm_epsilon=args.norm_epsilon, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=None, eos_token_id=None)
    state = {
        "transformer.wte.weight": tensors["embedding.word_embeddings.weight"][:vocab],
        "transformer.wpe.weight": tensors["embedding.position_embeddings.weight"],
        "transformer.ln_f.weight": tensors["decoder.final_layernorm.weight"],
        "transformer.ln_f.bias": tensors["decoder.final_layernorm.bias"],
    }
    state["lm_head.weight"] = state["transformer.wte.weight"]
    for layer in range(args.num_layers):
        place = f"transformer.h.{layer}."
        for key, (transposed, name) in KINDS.items():
            value = tensors["decoder.layers." + key][layer]
            state[place + name] = value.t().contiguous() if transposed else value
        for part in ("weight", "bias"):
            value = tensors["decoder.layers.self_attention.linear_qkv." + part][layer]
            state[place + "attn.c_attn." + part] = qkv(value, args.num_attention_heads)
    model = transformers.GPT2LMHeadModel(config).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or any("attn.bias" not in name and "masked_bias" not in name for name in missing):
        sys.exit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model


def windows(count, length, stride):
    """(begin, tokens, scored) as tasks/zeroshot_gpt/datasets.py of Megatron-LM cuts `count` tokens."""
    number = max(math.ceil(max(count - 1 - stride, 0) / stride) + 1, 1)
    for i in range(number):
        tokens = min(length + 1, count - i * stride)
        targets = tokens - 1
        yield i * stride, tokens, targets if i == 0 else max(0, targets - (length - stride))


@torch.no_grad()
def text_nll(model, ids, length, stride):
    total = 0.0
    for begin, tokens, scored in windows(len(ids), length, stride):
        if scored:
            piece = torch.tensor(ids[begin : begin + tokens])
            logits = model(piece[None, :-1]).logits[0, -scored:]
            total += F.cross_entropy(logits, piece[-scored:], reduction="none").double().sum().item()
    return total


@torch.no_grad()
def greedy(model, ids, count, room):
    """The likeliest continuation, and the first token whose likeliest two are a rounding apart."""
    ids, undecided = list(ids), count
    for i in range(min(count, room - len(ids))):
        top = model(torch.tensor([ids])).logits[0, -1].topk(2)
        if top.values[0] - top.values[1] < 1e-5 and undecided == count:
            undecided = i
        ids.append(top.indices[0].item())
    return ids, undecided


def run(program, *arguments, **more):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True, **more).stdout


def compare_greedy(options, model, tokenizer, documents, room):
    prompts = [ids[:17] for ids in documents if len(ids) > 40][: options.texts]
    texts = [tokenizer.decode(ids[1:]) for ids in prompts]
    lines = run(f"{options.bin}/mt-generate", "--device", "cpu", "--load", options.checkpoint, "--temperature", "0",
                "--num-tokens", str(min(64, room - 17)), "--json", "-",
                input="".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    compared = 0
    for prompt, line in zip(prompts, map(json.loads, lines.splitlines()), strict=True):
        expected, undecided = greedy(model, prompt, min(64, room - 17), room)
        found, expected = line["token_ids"][:undecided], expected[17:]
        if tokenizer.eos_token_id in expected:
            expected = expected[: expected.index(tokenizer.eos_token_id)]
        if found != expected[:undecided]:
            sys.exit(f"greedy text differs: {line['prompt']!r}: {found}, expected {expected}")
        compared += len(found)
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("checkpoint")
    parser.add_argument("input")
    parser.add_argument("--seq-length", type=int)
    parser.add_argument("--overlapping-eval", type=int)
    parser.add_argument("--texts", type=int, default=8, help="prompts of the greedy comparison")
    options = parser.parse_args()
    args, tensors = read_checkpoint(options.checkpoint)
    folder = f"{options.checkpoint}/tokenizer"
    tokenizer = transformers.GPT2Tokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt")
    model = build_model(args, tensors, len(tokenizer))
    length = options.seq_length or args.max_position_embeddings
    stride = options.overlapping_eval or length

    lines = run(f"{options.bin}/mt-eval", "--device", "cpu", "--load", options.checkpoint, "--seq-length", str(length),
                "--overlapping-eval", str(stride), "--json", options.input).splitlines()
    ours = [json.loads(line) for line in lines]
    with open(options.input, encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    documents = [[tokenizer.eos_token_id, *tokenizer(text)["input_ids"]] for text in texts]
    nll = [text_nll(model, ids, length, stride) for ids in documents]
    worst = 0.0
    for item, value, ids in zip(ours[:-1], nll, documents, strict=True):
        if item["tokens"] != len(ids) - 1:
            sys.exit(f"item {item['item']}: {item['tokens']} tokens, expected {len(ids) - 1}")
        worst = max(worst, abs(item["nll"] - value) / max(1.0, value))
    theirs = math.exp(sum(nll) / sum(len(ids) - 1 for ids in documents))
    difference = abs(ours[-1]["perplexity"] / theirs - 1)
    compared = compare_greedy(options, model, tokenizer, documents, args.max_position_embeddings)
    print(json.dumps({
        "seq_length": length, "overlapping_eval": stride, "texts": len(texts), "tokens": ours[-1]["tokens"],
        "mt_perplexity": ours[-1]["perplexity"], "transformers_perplexity": theirs,
        "relative_difference": difference, "worst_nll_difference": worst, "greedy_tokens_compared": compared,
        "torch": torch.__version__, "transformers": transformers.__version__}))
    if difference > 1e-4 or worst > 1e-5:
        sys.exit("perplexity differs")


if __name__ == "__main__":
    main()
