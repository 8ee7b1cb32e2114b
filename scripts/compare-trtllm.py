#!/usr/bin/env python3
"""Compare mt-convert's checkpoints of TensorRT-LLM with the models they were made of, by TensorRT-LLM's own description of them.

Small random Llamas, Mistrals, Qwen 2s and GPT-2s of transformers become checkpoints of one, two and four ranks, as they are, in FP8 and in
W4A16_AWQ.  What each rank's file has is put together as docs/source/architecture/checkpoint.md and modeling_utils.py of TensorRT-LLM
say that its ranks use it: every weight must be the model's to the bit; in FP8 and AWQ the numbers must be those of the folder of
Hugging Face's that mt-convert makes in the same format, to the bit, whose norms they then go with.  transformers computes with the
weights that come of it, which must give the logits of the model, or of that folder's numbers.

Needs from PyPI: torch, transformers, tokenizers, safetensors (tried with 2.15.0, 5.24.0, 0.23.2, 0.8.0).
Run:  scripts/compare-trtllm.py BIN
BIN holds mt-convert.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import tokenizers
import torch
import transformers
from safetensors.torch import load_file

HIDDEN, FFN, VOCAB = 512, 1024, 61
SIZES = {"hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
         "vocab_size": VOCAB, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}
KINDS = {"llama": {"tie_word_embeddings": False}, "mistral": {"sliding_window": 16}, "qwen2": {"tie_word_embeddings": True}, "gpt2": {}}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "gpt2": "GPTForCausalLM"}
TEXT = "".join(chr(32 + (i * i + i // 7) % VOCAB) for i in range(4000))
# Flags of mt-convert, for TensorRT-LLM and for Hugging Face.
FORMS = {"": ("", ""), "FP8": ("--quantize fp8", "--quantize fp8 --quantize-layout modelopt"),
         "W4A16_AWQ": ("--quantize int4_awq", "--quantize int4_awq")}


def make_model(kind, dtype):
    torch.manual_seed(5)
    if kind == "gpt2":
        config = transformers.GPT2Config(n_embd=HIDDEN, n_layer=2, n_head=8, n_positions=64, vocab_size=VOCAB, bos_token_id=1, eos_token_id=2)
    else:
        config = transformers.AutoConfig.for_model(kind, **SIZES, **KINDS[kind])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    for name, value in model.named_parameters():
        if name.endswith(("bias", "norm.weight", "ln_1.weight")):
            torch.nn.init.normal_(value, 1 if "weight" in name else 0, .2)
    return model.eval()


def write_tokenizer(folder):
    tokens = {chr(32 + i): i for i in range(VOCAB)}
    tokenizers.Tokenizer(tokenizers.models.BPE(vocab=tokens, merges=[])).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def signed(nibble):
    return (nibble.to(torch.int16) ^ 8) - 8


class Checkpoint:
    """What all ranks have together."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        mapping = self.config["mapping"]
        assert mapping["world_size"] == mapping["tp_size"] and mapping["pp_size"] == 1
        self.ranks = [load_file(folder / f"rank{rank}.safetensors") for rank in range(mapping["tp_size"])]
        self.read = [set() for _ in self.ranks]
        self.algorithm = self.config["quantization"]["quant_algo"]

    def parts(self, name):
        for rank, read in zip(self.ranks, self.read):
            read.add(name)
            assert rank[name].is_contiguous()
        return [rank[name] for rank in self.ranks]

    def has(self, name):
        return name in self.ranks[0]

    def same(self, name):
        parts = self.parts(name)
        assert all(torch.equal(part, parts[0]) for part in parts), name
        return parts[0]

    def linear(self, module):
        """[out, in] of each rank, as numbers."""
        weights = self.parts(module + ".weight")
        if weights[0].dtype == torch.float8_e4m3fn:
            scale, inputs = self.same(module + ".weights_scaling_factor"), self.same(module + ".activation_scaling_factor")
            assert self.algorithm == "FP8" and scale.shape == inputs.shape == (1,) and scale.dtype == inputs.dtype == torch.float32 and inputs > 0
            return [weight.float() * scale for weight in weights]
        if weights[0].dtype == torch.int8:
            assert self.algorithm == "W4A16_AWQ"
            group, made = self.config["quantization"]["group_size"], []
            for weight, scale, inputs in zip(weights, self.parts(module + ".weights_scaling_factor"), self.parts(module + ".prequant_scaling_factor")):
                bits = weight.view(torch.uint8)
                numbers = torch.stack([signed(bits & 15), signed(bits >> 4)], 1).reshape(2 * weight.shape[0], weight.shape[1]).float()
                assert inputs.shape == (weight.shape[1],) and scale.shape == (numbers.shape[0], weight.shape[1] // group)
                made.append(numbers * scale.float().repeat_interleave(group, 1) * inputs.float())
            return made
        assert module == "lm_head" or self.algorithm is None, module
        return weights

    def heads(self, parts):
        """Queries, keys and values of all heads, each [out, ...]."""
        heads, keys, ranks = self.config["num_attention_heads"], self.config["num_key_value_heads"], len(parts)
        own_keys = max(1, keys // ranks)
        size = self.config["head_size"]
        found = [part.split([heads // ranks * size, own_keys * size, own_keys * size]) for part in parts]
        whole = [torch.cat([part[0] for part in found])]
        for kind in (1, 2):
            copies = max(1, ranks // keys)
            for i in range(ranks):
                assert torch.equal(found[i][kind], found[i // copies * copies][kind])
            whole.append(torch.cat([part[kind] for part in found[::copies]]))
        return whole

    def check_all_read(self):
        for rank, read in zip(self.ranks, self.read):
            assert set(rank) == read, set(rank) ^ read


def llama_weights(at, tied):
    weights = {"model.embed_tokens.weight": at.same("transformer.vocab_embedding.weight"), "model.norm.weight": at.same("transformer.ln_f.weight")}
    head = torch.cat(at.parts("lm_head.weight"))
    assert (head[VOCAB:] == 0).all()
    weights["lm_head.weight"] = head[:VOCAB]
    if tied:
        assert torch.equal(weights["lm_head.weight"], weights["model.embed_tokens.weight"])
    for i in range(at.config["num_hidden_layers"]):
        theirs, ours = f"transformer.layers.{i}.", f"model.layers.{i}."
        weights[ours + "input_layernorm.weight"] = at.same(theirs + "input_layernorm.weight")
        weights[ours + "post_attention_layernorm.weight"] = at.same(theirs + "post_layernorm.weight")
        for name, part in zip("qkv", at.heads(at.linear(theirs + "attention.qkv"))):
            weights[ours + f"self_attn.{name}_proj.weight"] = part
        if at.has(theirs + "attention.qkv.bias"):
            assert at.config["attn_bias"]
            for name, part in zip("qkv", at.heads(at.parts(theirs + "attention.qkv.bias"))):
                weights[ours + f"self_attn.{name}_proj.bias"] = part
        weights[ours + "self_attn.o_proj.weight"] = torch.cat(at.linear(theirs + "attention.dense"), 1)
        weights[ours + "mlp.gate_proj.weight"] = torch.cat(at.linear(theirs + "mlp.fc"))
        weights[ours + "mlp.up_proj.weight"] = torch.cat(at.linear(theirs + "mlp.gate"))
        weights[ours + "mlp.down_proj.weight"] = torch.cat(at.linear(theirs + "mlp.proj"), 1)
    return weights


def gpt2_weights(at, _):
    head = torch.cat(at.parts("lm_head.weight"))[:VOCAB]
    weights = {"transformer.wte.weight": at.same("transformer.vocab_embedding.weight"), "transformer.wpe.weight": at.same("transformer.position_embedding.weight"),
               "lm_head.weight": head}
    assert torch.equal(head, weights["transformer.wte.weight"])
    for kind in ("weight", "bias"):
        weights["transformer.ln_f." + kind] = at.same("transformer.ln_f." + kind)
    for i in range(at.config["num_hidden_layers"]):
        theirs, ours = f"transformer.layers.{i}.", f"transformer.h.{i}."
        for kind in ("weight", "bias"):
            weights[ours + "ln_1." + kind] = at.same(theirs + "input_layernorm." + kind)
            weights[ours + "ln_2." + kind] = at.same(theirs + "post_layernorm." + kind)
        weights[ours + "attn.c_attn.weight"] = torch.cat(at.heads(at.linear(theirs + "attention.qkv"))).T
        weights[ours + "attn.c_attn.bias"] = torch.cat(at.heads(at.parts(theirs + "attention.qkv.bias")))
        weights[ours + "attn.c_proj.weight"] = torch.cat(at.linear(theirs + "attention.dense"), 1).T
        weights[ours + "mlp.c_fc.weight"] = torch.cat(at.linear(theirs + "mlp.fc")).T
        weights[ours + "mlp.c_fc.bias"] = torch.cat(at.parts(theirs + "mlp.fc.bias"))
        weights[ours + "mlp.c_proj.weight"] = torch.cat(at.linear(theirs + "mlp.proj"), 1).T
        for name, module in (("attn.c_proj.bias", "attention.dense.bias"), ("mlp.c_proj.bias", "mlp.proj.bias")):
            weights[ours + name] = at.same(theirs + module)
    return weights


def check_config(kind, config, dtype, algorithm):
    names = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
    expected = {"architecture": ARCHITECTURES[kind], "dtype": names[dtype], "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": 2,
                "num_attention_heads": 8, "num_key_value_heads": 8 if kind == "gpt2" else 2, "intermediate_size": 4 * HIDDEN if kind == "gpt2" else FFN,
                "position_embedding_type": "learned_absolute" if kind == "gpt2" else "rope_gpt_neox", "hidden_act": "gelu_new" if kind == "gpt2" else "silu",
                "max_position_embeddings": 64, "attn_bias": kind in ("qwen2", "gpt2"), "mlp_bias": kind == "gpt2"}
    for name, value in expected.items():
        assert config[name] == value, (name, config[name], value)
    assert config["quantization"]["quant_algo"] == (algorithm or None) and config["quantization"]["kv_cache_quant_algo"] is None


def main():
    program = pathlib.Path(sys.argv[1]) / "mt-convert"
    run = lambda *arguments: subprocess.run([program, "--quiet", *map(str, arguments)], check=True)
    ids = torch.arange(48).reshape(2, 24) % VOCAB
    for kind in KINDS:
        for dtype in (torch.float32, torch.bfloat16):
            for form, (flags, twin_flags) in FORMS.items():
                if form and kind == "gpt2":
                    continue
                for ranks in (1, 2, 4):
                    with tempfile.TemporaryDirectory() as name:
                        folder = pathlib.Path(name)
                        model = make_model(kind, dtype)
                        model.save_pretrained(folder / "model")
                        write_tokenizer(folder / "model")
                        (folder / "text").write_text(TEXT)
                        calibration = ["--calib", folder / "text", "--calib-size", 4, "--calib-seq", 32] if form else []
                        run("--saver", "trtllm", "--target-tensor-parallel-size", ranks, *flags.split(), *calibration, folder / "model", folder / "made")
                        if form:
                            run("--saver", "hf", *twin_flags.split(), *calibration, folder / "model", folder / "twin")
                            run("--saver", "hf", "--dtype", "fp32", folder / "twin", folder / "numbers")
                            model = transformers.AutoModelForCausalLM.from_pretrained(folder / "numbers", dtype=torch.float32)
                        made = Checkpoint(folder / "made")
                        check_config(kind, made.config, dtype, form)
                        tied = model.config.tie_word_embeddings
                        weights = (gpt2_weights if kind == "gpt2" else llama_weights)(made, tied)
                        made.check_all_read()
                        expected = model.state_dict()
                        assert set(weights) == set(expected), set(weights) ^ set(expected)
                        for key, value in weights.items():
                            weights[key] = value.to(dtype).to(expected[key].dtype)  # a folder's numbers are in its type
                            assert torch.equal(weights[key], expected[key]), (kind, dtype, form, ranks, key)
                        with torch.no_grad():
                            logits = model(ids).logits
                            model.load_state_dict(weights)
                            assert torch.equal(model(ids).logits, logits)
                        print(f"{kind:8s} {str(dtype)[6:]:9s} {form or 'as it is':10s} {ranks} ranks: {len(weights)} tensors, logits to the bit", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
