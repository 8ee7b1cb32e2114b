#!/usr/bin/env python3
"""Compares losses and gradients of a Mixtral, a Qwen2-MoE, Qwen3-MoEs, Qwen3-Nexts, a GLM-4.5, DeepSeek-V2s and -V3s, and of hybrids of Mamba-2
(Nemotron 3, Granite 4), in mt-pretrain with those of transformers, and their text with generate()'s.

The models are tiny and random, with three heads and five experts.  mt-convert makes a checkpoint of it, which becomes the same
bytes again.  mt-pretrain takes a step of SGD in fp64 over four samples of testdata's stories, and mt-convert converts what
came of it: what each weight has changed by is the learning rate times its gradient, which must be that of transformers to
1e-6 of the largest of its tensor, as must the loss; of hybrids, whose scans transformers computes in float32, to 1e-5.  Then
both continue texts, greedily, to the same tokens, mt-generate from the folder that transformers wrote.

Needs from PyPI: torch, transformers (tried with 2.15.0, and 4.51.3 and 5.24.0), numpy, safetensors.
Run:  scripts/compare-experts.py build/release/cmd [CASE ...]
"""
import contextlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
from unittest import mock

os.environ["MT_DEVICE"] = "cpu"
import numpy  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
TOKENIZER = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", f"{TESTDATA}/gpt2_bpe/vocab.json",
             "--merge-file", f"{TESTDATA}/gpt2_bpe/merges.txt"]
RATE, WORDS = 2.0**-10, 380
RUN = f"""--load ours --finetune --data-path s_text_document --split 100,0,0 --seq-length 64 --micro-batch-size 4
  --global-batch-size 4 --train-iters 1 --hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --lr {RATE}
  --lr-decay-style constant --weight-decay 0 --clip-grad 0 --optimizer sgd --sgd-momentum 0 --moe-aux-loss-coeff 0
  --json""".split()


COMMON = dict(vocab_size=WORDS, hidden_size=48, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, head_dim=16,
              max_position_embeddings=64, num_experts_per_tok=2, rope_theta=10000.0, sliding_window=None, rms_norm_eps=1e-5,
              tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, experts_implementation="eager")


def qwen(**more):
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        **COMMON, num_experts=5, moe_intermediate_size=37, intermediate_size=41, **more))


# Heads and channels of layers with the gated delta rule are odd, and so are the tokens that the convolution sees.
def qwen_next(**more):
    return transformers.Qwen3NextForCausalLM(transformers.Qwen3NextConfig(**{**COMMON, **dict(
        num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=20, num_experts=5, moe_intermediate_size=37,
        intermediate_size=41, shared_expert_intermediate_size=29, linear_conv_kernel_dim=3, linear_key_head_dim=7,
        linear_value_head_dim=11, linear_num_key_heads=3, linear_num_value_heads=6,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.3)), **more}))


def qwen_3_5(**more):
    settings = dict(COMMON, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=20, intermediate_size=41,
                    linear_conv_kernel_dim=3, linear_key_head_dim=7, linear_value_head_dim=11, linear_num_key_heads=3,
                    linear_num_value_heads=6, rope_parameters=dict(
                        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.3, mrope_section=[1, 1, 1]))
    for name in ("num_experts_per_tok", "rope_theta", "sliding_window", "experts_implementation"):
        del settings[name]
    return transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(**settings | more))


# Positions go beyond the 16 that YaRN stretches; widths of keys, 6 + 4, and of values differ.
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4, beta_slow=1)
LATENT = {name: value for name, value in COMMON.items() if name not in ("num_key_value_heads", "head_dim", "rope_theta", "sliding_window")}
LATENT |= dict(num_key_value_heads=3, rms_norm_eps=1e-6, kv_lora_rank=11, qk_nope_head_dim=6, qk_rope_head_dim=4,
               n_routed_experts=6, moe_intermediate_size=37, intermediate_size=41, n_shared_experts=2, first_k_dense_replace=1,
               rope_interleave=True)


HYBRID = {name: COMMON[name] for name in ("vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                                          "max_position_embeddings", "tie_word_embeddings", "bos_token_id", "eos_token_id",
                                          "experts_implementation")}


def granite(**more):
    return transformers.GraniteMoeHybridForCausalLM(transformers.GraniteMoeHybridConfig(**{**HYBRID, **dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], intermediate_size=37,
        shared_intermediate_size=29, num_experts_per_tok=2, mamba_n_heads=6, mamba_d_head=16, mamba_d_state=8,
        mamba_chunk_size=16, rms_norm_eps=1e-5, embedding_multiplier=3.0, logits_scaling=1.6, residual_multiplier=0.7,
        attention_multiplier=0.3), **more}))


def nemotron(**more):
    return transformers.NemotronHForCausalLM(transformers.NemotronHConfig(
        **HYBRID, num_hidden_layers=None, layers_block_type=["linear_attention", "moe", "full_attention", "moe", "mlp"],
        ssm_state_size=8, mamba_num_heads=6, mamba_head_dim=16, n_groups=2, intermediate_size=41, n_routed_experts=6, n_group=3,
        moe_intermediate_size=37, moe_shared_expert_intermediate_size=29, num_experts_per_tok=4, topk_group=2,
        routed_scaling_factor=2.5, layer_norm_epsilon=1e-5, chunk_size=16, **more))


def is_hybrid(case):
    return case.startswith(("nemotron_h", "granitemoehybrid"))


def deepseek2(**more):
    return transformers.DeepseekV2ForCausalLM(transformers.DeepseekV2Config(**{**LATENT, **more}))


def deepseek3(**more):
    return transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**{**LATENT, "num_nextn_predict_layers": 0, **more}))


MODELS = {
    "deepseek_v2 lite": lambda: deepseek2(q_lora_rank=None, rope_parameters=YARN | dict(mscale=0.707, mscale_all_dim=0.707),
                                          v_head_dim=8),
    "deepseek_v2": lambda: deepseek2(q_lora_rank=13, topk_method="group_limited_greedy", n_group=3, topk_group=2,
                                     routed_scaling_factor=1.7, v_head_dim=8),
    "deepseek_v3": lambda: deepseek3(q_lora_rank=13, n_group=3, topk_group=2, num_experts_per_tok=4, v_head_dim=8,
                                     rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=1.0)),
    "deepseek_v3, mscales differ": lambda: deepseek3(q_lora_rank=13, n_group=1, topk_group=1, v_head_dim=13,
                                                     rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=1.0)),
    "mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(
        **COMMON, num_local_experts=5, intermediate_size=37)),
    "qwen2_moe": lambda: transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(
        **COMMON, num_experts=5, moe_intermediate_size=37, intermediate_size=41, shared_expert_intermediate_size=29)),
    "qwen3_moe": lambda: qwen(norm_topk_prob=True),
    "qwen3_moe, some dense": lambda: qwen(norm_topk_prob=True, mlp_only_layers=[1]),
    "qwen3_next": lambda: qwen_next(),
    "qwen3_next, as many heads": lambda: qwen_next(layer_types=["linear_attention"] * 3 + ["full_attention"],
                                                   linear_num_value_heads=3, linear_conv_kernel_dim=5),
    "qwen3_next, attention alone": lambda: qwen_next(layer_types=["full_attention"] * 4),
    "qwen3_next, dense": lambda: qwen_next(mlp_only_layers=[0, 1, 2, 3], layer_types=[
        "full_attention", "linear_attention", "linear_attention", "full_attention"]),
    "qwen3_next, some dense, tied": lambda: qwen_next(decoder_sparse_step=2, tie_word_embeddings=True, norm_topk_prob=False),
    "qwen3_5_text": lambda: qwen_3_5(),
    "glm4_moe": lambda: transformers.Glm4MoeForCausalLM(transformers.Glm4MoeConfig(
        **COMMON, n_routed_experts=5, moe_intermediate_size=37, intermediate_size=41, n_shared_experts=2, attention_bias=True,
        use_qk_norm=True, routed_scaling_factor=1.5, first_k_dense_replace=1)),
    "olmoe": lambda: transformers.OlmoeForCausalLM(transformers.OlmoeConfig(
        **COMMON, num_experts=5, intermediate_size=37)),
    "olmoe, softmax behind": lambda: transformers.OlmoeForCausalLM(transformers.OlmoeConfig(
        **COMMON, num_experts=5, intermediate_size=37, norm_topk_prob=True)),
    "gpt_oss": lambda: transformers.GptOssForCausalLM(transformers.GptOssConfig(**COMMON | dict(
        sliding_window=9, num_local_experts=5, intermediate_size=37, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=8.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=32)))),
    "qwen3_moe, softmax before": lambda: qwen(norm_topk_prob=False),
    "nemotron_h": lambda: nemotron(),
    "nemotron_h, latents": lambda: nemotron(moe_latent_size=23),
    "granitemoehybrid": lambda: granite(num_local_experts=5, mamba_n_groups=2, position_embedding_type=None),
    "granitemoehybrid, dense": lambda: granite(num_local_experts=0, mamba_n_groups=1, position_embedding_type="rope"),
}


def make_model(name):
    torch.manual_seed(1)
    model = MODELS[name]()
    with torch.no_grad():
        for parameter, weights in model.named_parameters():
            weights.copy_(("norm" in parameter) + torch.randn_like(weights) * 0.15)
        for name, bias in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                bias.copy_(torch.randn_like(bias) * 0.05)
    return model.eval()


@contextlib.contextmanager
def all_in_double():
    """transformers computes some of a model in fp64 in float32 (norms, angles, softmaxes), which moves gradients by 1e-6 (gpt-oss
    1.2e-6, here 4e-8): here it does not."""
    def wide(dtype):
        return torch.float64 if dtype is torch.float32 else dtype

    def widened(function):
        return lambda *a, **more: function(*map(wide, a), **{name: wide(value) for name, value in more.items()})

    with mock.patch("torch.Tensor.to", widened(torch.Tensor.to)), mock.patch("torch.Tensor.float", lambda x: x.double().clone()), \
            mock.patch("torch.nn.functional.softmax", widened(F.softmax)):
        yield


class Work:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder

    def run(self, program, *arguments, **more):
        done = subprocess.run([f"{self.programs}/{program}", *arguments], cwd=self.folder, capture_output=True, text=True,
                              **more)
        if done.returncode:
            sys.exit(f"{done.stderr}compare-experts: exit code {done.returncode} of {program}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def tokens(self):
        """Those of the step's samples."""
        index = pathlib.Path(self.folder, "s_text_document.idx").read_bytes()
        count = struct.unpack_from("<Q", index, 18)[0]
        lengths, starts = numpy.frombuffer(index, "<i4", count, 34), numpy.frombuffer(index, "<i8", count, 34 + 4 * count)
        data = pathlib.Path(self.folder, "s_text_document.bin").read_bytes()
        samples = []
        for sample in self.run("mt-pretrain", "show-batch", "1", *RUN, *TOKENIZER):
            parts = [numpy.frombuffer(data, "<u2", lengths[p["sequence"]], starts[p["sequence"]])[p["begin"]:p["end"]]
                     for p in sample["parts"]]
            samples.append(numpy.concatenate(parts).astype("int64"))
        return torch.from_numpy(numpy.stack(samples))


def gradients(model):
    """By the names in files, in which each expert has matrices of its own."""
    mixtral = isinstance(model, transformers.MixtralForCausalLM)
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for name, weights in model.named_parameters():
        if isinstance(model, transformers.NemotronHForCausalLM):
            name = re.sub("^model[.]", "backbone.", name)
            if weights.dim() == 3 and "experts." in name:
                stem, last = name.rsplit(".", 1)
                for expert, matrix in enumerate(weights.grad):
                    yield f"{stem}.{expert}.{last}.weight", matrix
                continue
        if isinstance(model, transformers.GraniteMoeHybridForCausalLM):  # whose files have tensors of all experts, too
            for inside, file in (("router.weight", "router.layer.weight"), ("experts.gate_up_proj", "input_linear.weight"),
                                 ("experts.down_proj", "output_linear.weight")):
                name = name.replace(f"block_sparse_moe.{inside}", f"block_sparse_moe.{file}")
            yield name, weights.grad
            continue
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        if isinstance(model, transformers.GptOssForCausalLM):  # whose files have what it has
            yield name, weights.grad
        elif name.endswith("gate_up_proj"):
            for expert, both in enumerate(weights.grad):
                for part, half in zip((gate, up), both.chunk(2)):
                    yield name.replace("gate_up_proj", f"{expert}.{part}.weight"), half
        elif name.endswith("experts.down_proj"):
            for expert, matrix in enumerate(weights.grad):
                yield name.replace("down_proj", f"{expert}.{down}.weight"), matrix
        else:
            yield name, weights.grad


def compare(case):
    with tempfile.TemporaryDirectory() as folder:
        work, model = Work(pathlib.Path(sys.argv[1]).resolve(), folder), make_model(case)
        model.save_pretrained(f"{folder}/theirs")
        before = load_file(f"{folder}/theirs/model.safetensors")
        work.run("mt-preprocess", "--quiet", "--input", f"{TESTDATA}/stories/stories.jsonl", "--output-prefix", "s",
                 "--append-eod", *TOKENIZER)
        work.run("mt-convert", "--quiet", "theirs", "ours")
        work.run("mt-convert", "--quiet", "ours", "again", "--saver", "hf")
        again = load_file(f"{folder}/again/model.safetensors")
        same = before.keys() == again.keys() and all(torch.equal(before[name], again[name]) for name in before)
        step = [e for e in work.run("mt-pretrain", *RUN, *TOKENIZER, "--dtype", "fp64", "--save", "after", "--quiet")
                if e["event"] == "step"][0]
        work.run("mt-convert", "--quiet", "after", "back", "--saver", "hf")
        after = load_file(f"{folder}/back/model.safetensors")
        model.double()
        if case.startswith(("qwen3_next", "qwen3_5")):  # whose frequencies were rounded to float32
            frequencies = model.model.rotary_emb.inv_freq
            turning = 2 * len(frequencies)
            frequencies.copy_(10000.0 ** (-torch.arange(0, turning, 2, dtype=torch.float64) / turning))
        tokens = work.tokens()
        with contextlib.nullcontext() if is_hybrid(case) else all_in_double():
            loss = F.cross_entropy(model(tokens[:, :-1]).logits.transpose(1, 2), tokens[:, 1:])
            loss.backward()
        worst = max(((before[name].double() - after[name].double()) / RATE - theirs).abs().max().item() /
                    theirs.abs().max().item() for name, theirs in gradients(model))
        apart = abs(step["loss"] - loss.item())
        words = transformers.GPT2Tokenizer(f"{TESTDATA}/gpt2_bpe/vocab.json", f"{TESTDATA}/gpt2_bpe/merges.txt")
        prompts, texts = [words.decode(row[:9]) for row in tokens], []
        for prompt in prompts:
            ids = torch.tensor([words(prompt).input_ids])
            with torch.no_grad():
                new = model.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=0)[0, ids.shape[1]:]
            texts.append(words.decode(new, clean_up_tokenization_spaces=False))
        ours = [e["text"] for e in work.run("mt-generate", "--load", "theirs" if is_hybrid(case) else "ours", *TOKENIZER, "--temperature", "0", "--num-tokens",
                                            "20", "--ignore-eod", "--dtype", "fp64", "--json", *prompts)]
    alike = sum(a == b for a, b in zip(ours, texts, strict=True))
    most = 1e-5 if is_hybrid(case) else 1e-6
    good = same and worst <= most and apart <= most and alike == len(texts)
    print(re.sub(" +", " ", f"{case}: folder again {'the same' if same else 'DIFFERS'}; loss {step['loss']:.6f}, apart {apart:.1e}; "
                            f"largest difference of gradients {worst:.1e}; {alike} of {len(texts)} texts alike"
                            f"{'' if good else '  NOT EQUAL'}"))
    return good


def main():
    sys.exit(0 if all([compare(case) for case in sys.argv[2:] or MODELS]) else 1)


if __name__ == "__main__":
    main()
