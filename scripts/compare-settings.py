#!/usr/bin/env python3
"""Model folders whose config.json says one thing otherwise: mt follows transformers, or refuses by name.

    compare-settings.py build/release/cmd             every family, every setting
    compare-settings.py build/release/cmd llama       families whose name has this in it
    compare-settings.py build/release/cmd llama rope  and of these the settings with this in them

Tiny models with random weights, those of scripts/model_folders.py and some more.  Of each, every member of
config.json, every one that its class has beside these, and some that other classes have, is taken away, made null
and given other values, one change at a time.  Then transformers reads the folder, and mt-generate does: the
log-probabilities after a prompt are equal to 1e-4, as both compute in float32, or mt refuses, or transformers does,
or says that tensors are not those of the model.  What mt takes is also written as a folder again by mt-convert, of
which transformers must make what it made of the first.  Prints each change after which mt computes something else
("differs"), after which it is ended by a signal or by a fault that it calls its own ("breaks"), each whose second folder is
another model ("written") or none, and how many are which; exits with 1 if one differs, breaks or is written so, or a case as it
is.  What transformers does not take, and mt does ("lenient"), is counted alone.

Changes are tried on all cores, in folders in memory, as mt-convert waits for a disk ten times as long as it works; and a folder
that it writes with the same bytes again is read once.  A family takes less than a minute on two cores.

Left out are rms_norm_eps of a DeepSeek and a Youtu-LLM, as the norms of its latents have 1e-6 in transformers, which mt tells,
pad_token_id of the latter, whose row of words transformers 5.24 sets to zeros once it has read it, and
rescale_prenorm_residual of a Mamba-2, which is of a model that begins: transformers 5.24 divides weights that it has read by
it, too, where its Nemotron-H passes these over.

Needs from PyPI: transformers (tried with 5.24.0), torch.
"""
import copy
import hashlib
import json
import multiprocessing
import os
import pathlib
import shutil
import sys
import tempfile

import model_folders as folders
import torch
import transformers

transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # None: where temporary files go
PROMPT = "tomorrow we shall bake bread again, whoever reads this slowly"
NO_MODEL = {"architectures", "transformers_version", "model_type", "id2label", "label2id", "_name_or_path", "dtype",
            "torch_dtype", "return_dict", "output_hidden_states", "problem_type", "chunk_size_feed_forward",
            "is_encoder_decoder", "torchscript", "use_cache", "output_attentions", "use_return_dict"}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu2", "silu", "tanh"]
PAIRS = {"short_factor": 1.5, "long_factor": 2.5}
NAMED = {
    "rope_type": ["default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"],
    "position_embedding_type": ["rope", "nope", "alibi", "absolute", "relative_key"],
    "scoring_func": ["softmax", "sigmoid"], "topk_method": ["greedy", "group_limited_greedy", "noaux_tc"],
    "layer_types": [["full_attention", "full_attention"], ["sliding_attention", "sliding_attention"],
                    ["sliding_attention", "full_attention"], ["full_attention", "sliding_attention"],
                    ["chunked_attention", "full_attention"]],
    "rope_scaling": [{"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0},
                     {"type": "dynamic", "factor": 4.0}, {"rope_type": "yarn", "factor": 4.0},
                     {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 0.7,
                      "mscale_all_dim": 1.3}],
    "sliding_window": [3, 4, 1, 0, None], "attention_chunk_size": [4], "mlp_layer_types": [["dense", "sparse"]],
}
# What some class or other has, and each may be given.
OTHERS = ["rope_theta", "rope_scaling", "partial_rotary_factor", "rotary_pct", "head_dim", "sliding_window", "layer_types",
          "use_sliding_window", "max_window_layers", "attention_bias", "qkv_bias", "mlp_bias", "attn_logit_softcapping",
          "final_logit_softcapping", "query_pre_attn_scalar", "attention_chunk_size", "hidden_activation", "hidden_act",
          "use_qk_norm", "norm_topk_prob", "clip_qkv", "no_rope_layers", "logit_scale", "embedding_multiplier",
          "use_bidirectional_attention", "is_causal", "is_decoder", "add_cross_attention", "rope_interleave",
          "num_local_experts", "num_experts", "intermediate_size", "tie_word_embeddings", "n_inner", "rms_norm_eps",
          "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon", "original_max_position_embeddings",
          "num_key_value_heads", "quantization_config", "pretraining_tp", "attention_multiplier", "residual_dropout"]
ROPE_MEMBERS = {"factor": 4.0, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 16, "beta_fast": 4.0,
                "beta_slow": 2.0, "attention_factor": 1.3, "mscale": 0.7, "mscale_all_dim": 1.3, "truncate": False,
                "low_freq_factor": 1.5, "high_freq_factor": 3.0, "type": "linear", "rope_theta": 300.0}


def latent(family, **settings):
    sizes = dict(q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=8,
                 num_key_value_heads=4, moe_intermediate_size=40, n_shared_experts=1, first_k_dense_replace=1, n_group=2,
                 topk_group=1)
    return folders.experts(family, **{**sizes, **settings})


def granite_hybrid(**settings):
    sizes = dict(folders.WIDTHS, mamba_n_heads=16, mamba_d_head=8, mamba_d_state=16, mamba_n_groups=2, pad_token_id=0,
                 layer_types=["mamba", "attention"], shared_intermediate_size=72, num_local_experts=0, rms_norm_eps=1e-5,
                 embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=2.0, attention_multiplier=0.2)
    return folders.of("GraniteMoeHybrid", **{**sizes, **settings})


WINDOW = dict(use_sliding_window=True, sliding_window=4, max_window_layers=1)
MORE = {
    "qwen2-window": lambda: folders.of("Qwen2", **WINDOW),
    "qwen3-window": lambda: folders.of("Qwen3", **WINDOW, head_dim=24),
    "smollm3-window": lambda: folders.of("SmolLM3", no_rope_layers=[1, 0], pad_token_id=0, **WINDOW),
    "gemma3-bases": lambda: folders.of("Gemma3Text", **folders.WINDOWS, head_dim=26, rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=100.0),
        full_attention=dict(rope_type="yarn", rope_theta=2e5, factor=8.0, original_max_position_embeddings=16))),
    "olmoe": lambda: folders.experts("Olmoe", num_experts=4),
    "gpt-oss": lambda: folders.experts("GptOss", num_local_experts=4, head_dim=16, sliding_window=4),
    "deepseek-v2": lambda: latent("DeepseekV2", topk_method="greedy"),
    "deepseek-v3": lambda: latent("DeepseekV3"),
    "granite-hybrid": lambda: granite_hybrid(),
    "granite-hybrid-experts": lambda: granite_hybrid(num_local_experts=4, num_experts_per_tok=2, intermediate_size=96,
                                                     position_embedding_type="rope"),
}
LEFT_OUT = [("deepseek", "rms_norm_eps"), ("youtu", "rms_norm_eps"), ("youtu", "pad_token_id"), ("mamba2", "rescale_prenorm_residual")]
# Their settings are those of another case, or of no family.
SKIPPED = ("llama-", "llama3-", "gemma2-without", "olmo2-", "granite-biases", "smollm3-all", "gpt2-", "qwen2-tied",
           "qwen3-tied", "mamba2-", "nemotron-h-", "qwen2-moe-", "qwen3-moe-", "mixtral-")


def others(name, value):
    """Values that a setting may have instead of `value`."""
    if name in PAIRS:
        return [[PAIRS[name] + i / 3 for i in range(len(value) if isinstance(value, list) else 10)]]
    if name in NAMED:
        return NAMED[name]
    if name.endswith(("activation", "hidden_act", "activation_function")):
        return ACTIVATIONS
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return sorted({value + 1, max(value - 1, 0), value * 2, value // 2, 0, 1, -1})
    if isinstance(value, float):
        return [value * 1.5 + 0.01, value / 2, 0.0, int(value) + 1]
    if isinstance(value, list) and value:
        return [value[::-1], value[:-1], value + value[-1:], value[:1] * len(value), []]
    if value is None:
        return [True, False, 1, 3, 0.5]
    return []


class GONE:
    """Instead of a value: the setting is taken away."""


def changes(config, whole):
    """(path, value) for each change of one setting; GONE takes it away.  whole: what it may have, with defaults."""
    for name, usual in whole.items():
        value = config.get(name, usual)
        if isinstance(value, dict) and name in config:
            for key, v in value.items():
                if isinstance(v, dict):
                    for path, new in changes(v, v):
                        yield (name, key, *path), new
                    continue
                yield (name, key), GONE
                for new in others(key, v):
                    yield (name, key), new
            if name.startswith("rope"):
                for key, new in ROPE_MEMBERS.items():
                    yield (name, key), new
        if name in config:
            yield (name,), GONE
        for new in [None, *others(name, value)]:
            yield (name,), new


def changed(config, path, value):
    config = copy.deepcopy(config)
    place = config
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value
    return config


class Case:
    def __init__(self, mt, name, place):
        self.mt, self.name, self.place, self.folder = mt, name, place, place / "model"
        self.kind, _ = folders.CASES[name]()
        model = folders.make_model(name, self.folder, torch.float32)
        tokenizer = folders.make_tokenizer(self.folder, bos=not name.startswith("gpt2"))
        self.ids = tokenizer(PROMPT).input_ids
        self.path = self.folder / "config.json"
        self.config = json.loads(self.path.read_text())
        whole = model.config.to_dict()
        left = NO_MODEL | {setting for family, setting in LEFT_OUT if name.startswith(family)}
        names = [f for f in dict.fromkeys([*self.config, *whole, *OTHERS]) if f not in left]
        self.whole = {f: whole.get(f) for f in names}

    def copied(self, place):
        """The same case in a folder of its own."""
        case = copy.copy(self)
        case.place, case.folder, case.path, case.read = place, place / "model", place / "model" / "config.json", {}
        shutil.copytree(self.folder, case.folder)
        return case

    def theirs(self, folder):
        """What transformers computes, or what it says."""
        try:
            model, info = self.kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True,
                                                    attn_implementation="eager")
            wrong = {k: v for k, v in info.items() if v and k in ("missing_keys", "mismatched_keys", "unexpected_keys",
                                                                   "error_msgs", "conversion_errors")}
            if wrong:
                return str(wrong)[:200]
            return folders.log_probs(model.eval(), self.ids)[-1]
        except Exception as error:  # of any kind: it does not take the folder
            return f"{type(error).__name__}: {error}"[:200]

    def ours(self):
        """What mt computes, or what it says; None: that the text ends here."""
        try:
            line = self.mt("mt-generate", "--load", self.folder, "--dtype", "fp32", "--json", "--num-tokens", 1, "--temperature",
                           0, "--logprobs", folders.WORDS, PROMPT)
        except RuntimeError as error:
            return str(error)
        tokens = json.loads(line)["logprobs"]
        if not tokens:
            return None
        found = torch.full((folders.WORDS,), float("nan"), dtype=torch.float64)
        for token in tokens[0]["top_logprobs"]:
            found[token["id"]] = token["logprob"]
        return found

    def written(self):
        shutil.rmtree(self.place / "back", ignore_errors=True)
        try:
            self.mt("mt-convert", "--saver", "hf", self.folder, self.place / "back")
        except RuntimeError as error:
            return str(error)
        digest = hashlib.sha256()
        for file in sorted((self.place / "back").rglob("*")):
            if file.is_file():
                digest.update(f"{file.relative_to(self.place)} {file.stat().st_size}\n".encode() + file.read_bytes())
        if digest.digest() not in self.read:
            self.read[digest.digest()] = self.theirs(self.place / "back")
        return self.read[digest.digest()]

    def verdict(self, path, value):
        """(kind, words) for a change."""
        config = changed(self.config, path, value) if path else self.config
        if config == self.config and path:
            return "same", ""
        self.path.write_text(json.dumps(config))
        ours = self.ours()
        if isinstance(ours, str):
            return "refused", ours
        theirs = self.theirs(self.folder)
        if isinstance(theirs, str):
            return "lenient", theirs
        if ours is None:
            return "ends", ""
        far = (ours - theirs).abs().max().item()
        if not far < 1e-4:
            return "differs", f"{far:.2g}"
        back = self.written()
        if isinstance(back, str):
            return "unwritten", back
        far = (back - theirs).abs().max().item()
        return ("equal", "") if far < 1e-4 else ("written", f"{far:.2g}")


def take(tried, case):
    """Makes a process ready for changes of a case, each of which verdict_of() takes by its place in the list."""
    global changes_tried, case_tried
    changes_tried, case_tried = tried, case.copied(case.place / str(os.getpid()))


def verdict_of(place):
    try:
        return case_tried.verdict(*changes_tried[place])
    except folders.Broken as error:
        return "breaks", str(error)


def verdicts(case, tried):
    """(kind, words) for each change, in order."""
    with multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0)), take, (tried, case)) as pool:
        yield from pool.imap(verdict_of, range(len(tried)))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    programs, only, setting = [*sys.argv[1:], "", ""][:3]
    mt = folders.Programs(programs)
    folders.CASES.update(MORE)
    faults = 0
    for name in folders.CASES:
        if only not in name or name in folders.MAKERS or (name.startswith(SKIPPED) and only != name):
            continue
        counts = {}
        with tempfile.TemporaryDirectory(dir=MEMORY) as scratch:
            case = Case(mt, name, pathlib.Path(scratch))
            tried = [((), GONE)]
            tried += [change for change in changes(case.config, case.whole) if any(setting in part for part in change[0])]
            for (path, value), (kind, words) in zip(tried, verdicts(case, tried)):
                counts[kind] = counts.get(kind, 0) + 1
                wrong = kind in ("differs", "breaks", "written") or not (path or kind == "equal")
                faults += wrong
                what = ".".join(path) + (" gone" if value is GONE else f" = {json.dumps(value)}")
                if wrong or kind == "unwritten":
                    print(f"{name:24} {kind:9} {what}: {words}", flush=True)
        print(f"{name:24} {counts}", flush=True)
    print(f"{transformers.__version__}: {faults} faults")
    sys.exit(faults > 0)


main()
