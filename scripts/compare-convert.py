#!/usr/bin/env python3
"""Convert tiny random models of transformers to Megatron's format and back.

For each model, saved with save_pretrained() in float32, bfloat16 and in several files:
  - mt-convert makes a torch_dist checkpoint of it, and of that again a folder of Hugging Face's;
  - every tensor of that folder must have the bytes of the original, and transformers must load it with
    no key missing or left over, with the same settings;
  - of a Llama also what Meta's files of one and of two ranks would hold must become the same;
  - torch.distributed.checkpoint must read the torch_dist checkpoint, and the settings of one without common.pt;
  - of families that mt-generate runs, the original's logits of texts and what mt-generate finds in the checkpoint must agree to 1e-5: each
    token's log-probabilities, of the whole vocabulary;
  - of families that llama.cpp knows, GGUF files of each type must hold the bytes that gguf's own quantize() makes of
    the original's tensors, by the names of its tables, with the settings; and transformers must read float32 ones as
    a model of the same logits.  Tokenizers of testdata/huggingface must be there token by token;
  - with --megatron, files of the torch format for some layouts load into Megatron-Core's GPTModel, with strict
    names, on each rank, and where there is one stage its ranks together find the original's logits, to 1e-5.

Needs from PyPI: torch, transformers, safetensors, gguf, accelerate, sentencepiece (tried with 2.15.0, 5.23.0, 0.7, 0.19, 1.15,
0.2), and megatron-core 0.12.1.
Run:  scripts/compare-convert.py BIN [MODEL ...] [--megatron]        BIN holds mt-convert and mt-generate
"""
import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import gguf
import numpy
import safetensors.torch
import sentencepiece
import torch
import torch.distributed.checkpoint as dcp
import transformers

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
T = transformers
T.logging.set_verbosity_error()
T.logging.disable_progress_bar()
warnings.filterwarnings("ignore")
VOCAB = len(json.load(open(TESTDATA / "gpt2_bpe/vocab.json")))
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=88, max_position_embeddings=64, bos_token_id=3, eos_token_id=VOCAB - 1)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
MODELS = {
    "gpt2": T.GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=3, eos_token_id=3),
    "gpt2 with a wide MLP and erf": T.GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=1, n_head=2,
                                                 n_inner=72, activation_function="gelu", bos_token_id=3, eos_token_id=3),
    "llama": T.LlamaConfig(**LLAMA | dict(num_key_value_heads=4)),
    "llama with query groups": T.LlamaConfig(**LLAMA, rope_theta=1000000.0),
    "llama, tied": T.LlamaConfig(**LLAMA, tie_word_embeddings=True),
    "llama with biases": T.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True),
    "llama 3.1": T.LlamaConfig(**LLAMA, head_dim=16, rope_parameters=LLAMA3),
    "llama, stretched": T.LlamaConfig(**LLAMA, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "mistral": T.MistralConfig(**LLAMA, sliding_window=5),
    "mistral without window": T.MistralConfig(**LLAMA, sliding_window=None),
    "qwen2": T.Qwen2Config(**LLAMA),
    "qwen2 with windows": T.Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "qwen3": T.Qwen3Config(**LLAMA, head_dim=16),
    "nemotron": T.NemotronConfig(**LLAMA, head_dim=16),
    "mixtral": T.MixtralConfig(**LLAMA, num_local_experts=4, num_experts_per_tok=3),
    "gemma": T.GemmaConfig(**LLAMA, head_dim=16),
    "megatron-bert": T.MegatronBertConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                          intermediate_size=72, max_position_embeddings=64, bos_token_id=3),
    "mamba2": T.Mamba2Config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8,
                             state_size=16, n_groups=1, bos_token_id=3, eos_token_id=3),
    "mamba2, tied, groups": T.Mamba2Config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_heads=4,
                                           head_dim=16, state_size=8, n_groups=2, tie_word_embeddings=True),
}
TENSORS_ONLY = ("mixtral", "gemma", "megatron-bert", "mamba2")  # model types that mt-generate does not run
MEGATRON = ("gpt2", "llama with query groups", "llama, tied", "qwen2")  # that its local specification computes
TEXTS = ["The quick brown fox", "12 + 30 = 42, and so on", "def f(x): return x"]
failures = 0


def fail(*words):
    global failures
    failures += 1
    print("  FAILED:", *words)


def run(*command, stdin=None):
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def auto_class(config):
    return T.MegatronBertForPreTraining if config.model_type == "megatron-bert" else T.AutoModelForCausalLM


def build(config, dtype):
    torch.manual_seed(1)
    kind = auto_class(config)
    model = (kind(config) if kind is T.MegatronBertForPreTraining else kind.from_config(config)).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1 if parameter.dim() == 1 and name.endswith("weight") and config.model_type != "nemotron" else 0
            parameter.copy_(centre + torch.randn_like(parameter, dtype=torch.float32) * 0.3)
    return model


def tensors_in(folder):
    found = {}
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        found |= safetensors.torch.load_file(file)
    return found


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def same_tensors(a, b):
    a, b = tensors_in(a), tensors_in(b)
    if a.keys() != b.keys():
        fail("other names:", sorted(a.keys() ^ b.keys()))
    for name in a.keys() & b.keys():
        if a[name].dtype != b[name].dtype or a[name].shape != b[name].shape or bits(a[name]) != bits(b[name]):
            fail(name, "differs")
    return len(a)


def same_settings(original, folder):
    found = T.AutoConfig.from_pretrained(folder).to_dict()
    for name, value in original.to_dict().items():
        other = found.get(name)
        if name in ("transformers_version", "_name_or_path", "dtype", "max_window_layers", "n_inner", "architectures"):
            continue
        if isinstance(value, dict) and "rope_theta" in value:
            value = {k: v for k, v in value.items() if v is not None}
            other = {k: v for k, v in other.items() if v is not None}
        if name == "head_dim" and value is None:
            value = original.hidden_size // original.num_attention_heads
        if value != other:
            fail(name, "is", other, "expected", value)


def check_loads(folder, dtype, kind):
    model, info = kind.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    for kind, keys in info.items():
        if keys:
            fail("loading:", kind, keys)
    return model


def check_core(folder):
    reader = dcp.FileSystemReader(folder)
    state = {k: torch.empty(e.size, dtype=e.properties.dtype)
             for k, e in reader.read_metadata().state_dict_metadata.items() if hasattr(e, "size")}
    dcp.load(state, storage_reader=reader, no_dist=True)
    if not state:
        fail("no tensors for torch.distributed.checkpoint")


def check_no_common_file(options, core, scratch):
    """The form of Megatron-LM's main branch: the common state is an object that Megatron saves as a list of one."""
    folder, key = f"{scratch}/no-common-pt", "common_state/shard_0_1"
    run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--no-common-pt", core, folder)
    release = f"{folder}/release"
    state = {key: None}
    dcp.load(state, storage_reader=dcp.FileSystemReader(release), no_dist=True)
    expected = torch.load(f"{core}/release/common.pt", weights_only=False)
    if os.path.exists(f"{release}/common.pt") or len(state[key]) != 1 or state[key][0] != expected:
        fail(key, "is", state[key], "expected", expected)
    if json.load(open(f"{release}/metadata.json")) != {"sharded_backend": "torch_dist", "sharded_backend_version": 1}:
        fail("metadata.json of a checkpoint without common.pt")


def check_logits(options, model, tokenizer, folder):
    """What mt-generate says of every token at each of its steps, against the model's own view."""
    worst = 0
    for text in TEXTS:
        line = json.loads(run(f"{options.bin}/mt-generate", "--quiet", "--load", folder, "--device", "cpu",
                              "--temperature", "0", "--num-tokens", "12", "--json", "--logprobs", str(VOCAB), text))
        prompt = [tokenizer.eos_token_id] + tokenizer(text).input_ids  # a text begins behind the end of another
        with torch.no_grad():
            logits = model(torch.tensor([prompt + line["token_ids"]])).logits[0].double()
        expected = logits.log_softmax(-1)
        for i, made in enumerate(line["logprobs"]):
            for entry in made["top_logprobs"]:
                there = expected[len(prompt) - 1 + i, entry["id"]].item()
                worst = max(worst, abs(entry["logprob"] - there) / max(1, abs(there)))
        if len(line["logprobs"][0]["top_logprobs"]) != VOCAB:
            fail("not the whole vocabulary")
    if worst > 1e-5:
        fail("logits differ by", worst)
    return worst


def import_megatron():
    location = pathlib.Path(__file__).with_name("compare-megatron.py")
    spec = importlib.util.spec_from_file_location("compare_megatron", location)
    ours = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ours)
    return ours, ours.import_megatron()


def megatron_rank(rank, tp, pp, folder, work):
    """One rank loads its file; without stages, rank 0 leaves the logits of all together in WORK."""
    ours, core = import_megatron()
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=tp * pp)
    core.parallel_state.initialize_model_parallel(tp, pp)
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    stage = core.parallel_state.get_pipeline_model_parallel_rank()
    name = f"mp_rank_{core.parallel_state.get_tensor_model_parallel_rank():02}" + (f"_{stage:03}" if pp > 1 else "")
    torch.serialization.add_safe_globals([argparse.Namespace])
    state = torch.load(f"{folder}/{name}/model_optim_rng.pt", weights_only=True)
    args = state["args"]
    args.pipeline_dtype = torch.float32
    config = ours.transformer_config(core, args)
    spec = get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization=args.normalization)
    model = GPTModel(config, spec, args.padded_vocab_size, args.max_position_embeddings, pre_process=stage == 0,
                     post_process=stage == pp - 1, parallel_output=False,
                     share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                     position_embedding_type=args.position_embedding_type, rotary_percent=args.rotary_percent,
                     rotary_base=args.rotary_base)
    model.load_state_dict(state["model"], strict=True)
    if pp == 1:
        ids = torch.load(f"{work}/ids.pt")
        length = ids.shape[1]
        future = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1)
        with torch.no_grad():
            logits = model.eval()(ids, torch.arange(length)[None], future)
        if rank == 0:
            torch.save(logits[..., :VOCAB], f"{work}/logits.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def parts_of(core, value):
    """The sharded tensors that one of a model's state is loaded from."""
    if isinstance(value, core.dist_checkpointing.mapping.ShardedTensorFactory):
        return [part for built in [value.build()] for part in (built if isinstance(built, list) else built.values())]
    return [value] if isinstance(value, core.dist_checkpointing.ShardedTensor) else []


def megatron_keys(rank, folder, work):
    """A model of Megatron-Core's loads the torch_dist checkpoint, and must ask for just what is there."""
    ours, core = import_megatron()
    from megatron.core.models.bert import bert_layer_specs, bert_model
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=1)
    core.parallel_state.initialize_model_parallel()
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    args = core.dist_checkpointing.load_common_state_dict(folder)["args"]
    args.num_moe_experts = args.num_experts
    config = ours.transformer_config(core, args)
    if args.num_experts:
        model = GPTModel(config, get_gpt_layer_local_spec(args.num_experts, moe_grouped_gemm=False,
                                                          normalization=args.normalization),
                         args.padded_vocab_size, args.max_position_embeddings,
                         share_embeddings_and_output_weights=False, position_embedding_type="rope")
    else:
        model = bert_model.BertModel(config, 2, bert_layer_specs.bert_layer_local_spec, args.padded_vocab_size,
                                     args.max_position_embeddings, add_binary_head=args.bert_binary_head,
                                     share_embeddings_and_output_weights=True)
    wanted = model.sharded_state_dict()
    asked = {part.key for value in wanted.values() for part in parts_of(core, value)}
    stored = {k for k, e in dcp.FileSystemReader(folder).read_metadata().state_dict_metadata.items()
              if hasattr(e, "size")}
    assert asked - {None} == stored, asked ^ stored
    found = core.dist_checkpointing.load(wanted, folder)
    model.load_state_dict({name: found[name] for name in wanted})
    torch.save(model.state_dict(), f"{work}/loaded.pt")
    torch.distributed.destroy_process_group()


def megatron_experts(rank, folder, work):
    """One of two ranks that share out a Mixtral's experts loads its file, of the torch format, with strict names."""
    ours, core = import_megatron()
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/experts", rank=rank, world_size=2)
    core.parallel_state.initialize_model_parallel(expert_model_parallel_size=2)
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    torch.serialization.add_safe_globals([argparse.Namespace])
    state = torch.load(f"{folder}/mp_rank_00_{rank:03}/model_optim_rng.pt", weights_only=True)
    args = state["args"]
    args.num_moe_experts = args.num_experts
    config = ours.transformer_config(core, args)
    model = GPTModel(config, get_gpt_layer_local_spec(args.num_experts, moe_grouped_gemm=False,
                                                      normalization=args.normalization),
                     args.padded_vocab_size, args.max_position_embeddings, position_embedding_type="rope")
    model.load_state_dict(state["model"], strict=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def check_megatron(options, model, core, scratch):
    ids = torch.arange(1, 41)[None] * 7 % VOCAB
    with torch.no_grad():
        expected = model(ids).logits
    for tp, pp in ((1, 1), (2, 1), (2, 2)):
        work, ranks = f"{scratch}/work{tp}{pp}", f"{scratch}/ranks{tp}{pp}"
        os.mkdir(work)
        torch.save(ids, f"{work}/ids.pt")
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--ckpt-format", "torch", "--saver-transformer-impl",
            "local", "--target-tensor-parallel-size", str(tp), "--target-pipeline-parallel-size", str(pp), core, ranks)
        torch.multiprocessing.spawn(megatron_rank, (tp, pp, f"{ranks}/release", work), nprocs=tp * pp)
        if pp > 1:
            continue
        found = torch.load(f"{work}/logits.pt")
        worst = ((found - expected).abs().max() / expected.abs().max()).item()
        if not worst < 1e-5:
            fail("Megatron-Core's logits on", tp, "ranks differ by", worst)
    print("  Megatron-Core loads its ranks' files and finds the same logits")


def write_meta(model, folder, ranks):
    """The model as Meta would publish it: what transformers' convert_llama_weights_to_hf.py reads, the other way."""
    c = model.config
    names = {"self_attn.q_proj": ("attention.wq", 0), "self_attn.k_proj": ("attention.wk", 0),
             "self_attn.v_proj": ("attention.wv", 0), "self_attn.o_proj": ("attention.wo", 1),
             "mlp.gate_proj": ("feed_forward.w1", 0), "mlp.down_proj": ("feed_forward.w2", 1),
             "mlp.up_proj": ("feed_forward.w3", 0), "input_layernorm": ("attention_norm", None),
             "post_attention_layernorm": ("ffn_norm", None), "embed_tokens": ("tok_embeddings", 1),
             "norm": ("norm", None), "lm_head": ("output", 0)}
    os.mkdir(folder)
    states = [{"rope.freqs": torch.ones(1)} for _ in range(ranks)]
    for name, tensor in model.state_dict().items():
        rest = name.removeprefix("model.").removesuffix(".weight")
        layer = ".".join(rest.split(".")[:2]) + "." if rest.startswith("layers.") else ""
        theirs, axis = names[rest.removeprefix(layer)]
        if theirs in ("attention.wq", "attention.wk"):
            heads = c.num_attention_heads if theirs.endswith("wq") else c.num_key_value_heads
            rows = tensor.shape[0]
            tensor = tensor.view(heads, 2, rows // heads // 2, -1).transpose(1, 2).reshape(rows, -1)
        parts = tensor.chunk(ranks, axis) if axis is not None else [tensor] * ranks
        for state, part in zip(states, parts):
            state[f"{layer}{theirs}.weight"] = part.clone()
    for rank, state in enumerate(states):
        torch.save(state, f"{folder}/consolidated.{rank:02}.pth")
    params = dict(dim=c.hidden_size, n_layers=c.num_hidden_layers, n_heads=c.num_attention_heads, multiple_of=8,
                  n_kv_heads=c.num_key_value_heads, norm_eps=c.rms_norm_eps, vocab_size=-1,
                  rope_theta=c.rope_parameters["rope_theta"])
    json.dump(params, open(f"{folder}/params.json", "w"))


def check_meta(options, model, original, scratch):
    for ranks in (1, 2):
        folder, core, back = (f"{scratch}/meta{ranks}{x}" for x in ("", "core", "back"))
        write_meta(model, folder, ranks)
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--loader", "llama_mistral", folder, core)
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver", "hf", core, back)
        print(f"  the same {same_tensors(original, back)} tensors from {ranks} of Meta's files")


GGUF_TYPES = {"fp32": (0, gguf.GGMLQuantizationType.F32), "fp16": (1, gguf.GGMLQuantizationType.F16),
              "bf16": (32, gguf.GGMLQuantizationType.BF16), "q8_0": (7, gguf.GGMLQuantizationType.Q8_0)}
GGUF_ARCHITECTURES = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
GGUF_TOKENIZERS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "nemo": "tekken", "o200k": "gpt-4o",
                   "mistral": None, "llama2": None}


def key_values(reader):
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def as_llama_cpp(name, tensor, config):
    """What convert_hf_to_gguf.py makes of one of transformers' tensors."""
    value = tensor.float().numpy()
    if config.model_type == "gpt2" and any(x in name for x in (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        return value.T
    if config.model_type in ("llama", "mistral") and (".q_proj." in name or ".k_proj." in name):
        heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
        return value.reshape(heads, 2, value.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)
    return value


def gguf_settings(config, architecture, vocab):
    gpt2, c = architecture == "gpt2", config
    windows = [w for w in [getattr(c, "sliding_window", None)] if w]
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    kv = {"block_count": c.num_hidden_layers, "context_length": min([c.max_position_embeddings] + windows),
          "embedding_length": c.hidden_size, "vocab_size": vocab, "attention.head_count": c.num_attention_heads,
          "attention.head_count_kv": c.num_attention_heads if gpt2 else c.num_key_value_heads,
          "feed_forward_length": (c.n_inner or 4 * c.n_embd) if gpt2 else c.intermediate_size}
    if gpt2:
        kv["attention.layer_norm_epsilon"] = c.layer_norm_epsilon
    else:
        kv |= {"attention.layer_norm_rms_epsilon": c.rms_norm_eps, "attention.key_length": head,
               "attention.value_length": head, "rope.dimension_count": head,
               "rope.freq_base": c.rope_parameters["rope_theta"]}
        if c.rope_parameters["rope_type"] == "linear":
            kv |= {"rope.scaling.type": "linear", "rope.scaling.factor": c.rope_parameters["factor"]}
    return {f"{architecture}.{k}": v for k, v in kv.items()}


def check_gguf(options, name, model, core, scratch):
    config, architecture = model.config, GGUF_ARCHITECTURES[model.config.model_type]
    arch = {text: number for number, text in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tied = config.tie_word_embeddings
    for kind, (file_type, wanted) in GGUF_TYPES.items():
        folder = f"{scratch}/gguf-{kind}"
        run(f"{options.bin}/mt-convert", "--quiet", "--saver", "gguf", "--dtype", kind, core, folder)
        reader = gguf.GGUFReader(f"{folder}/model.gguf")
        found = {tensor.name: tensor for tensor in reader.tensors}
        for theirs, tensor in model.state_dict().items():
            if tied and theirs == "lm_head.weight":
                continue
            own = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
            expected = as_llama_cpp(theirs, tensor, config)
            quant = gguf.GGMLQuantizationType.F32 if expected.ndim == 1 or own == "position_embd.weight" else wanted
            if quant == gguf.GGMLQuantizationType.Q8_0 and expected.shape[-1] % 32:
                quant = gguf.GGMLQuantizationType.F16
            got = found.pop(own, None)
            if got is None or got.tensor_type != quant or list(got.shape) != list(expected.shape[::-1]):
                fail(kind, own, "is", got and (got.tensor_type, got.shape), "expected", quant, expected.shape[::-1])
            elif gguf.quants.quantize(numpy.ascontiguousarray(expected), quant).tobytes() != got.data.tobytes():
                fail(kind, own, "differs")
        if "rope_freqs.weight" in found:
            inv_freq = model.model.rotary_emb.inv_freq.double().numpy()
            plain = config.rope_parameters["rope_theta"] ** -(numpy.arange(len(inv_freq)) / len(inv_freq))
            if not numpy.allclose(found.pop("rope_freqs.weight").data, plain / inv_freq, rtol=1e-6):
                fail("rope_freqs.weight differs")
        if found:
            fail("left over:", list(found))
        kv = key_values(reader)
        special = {"bos_token_id": VOCAB - 1, "eos_token_id": VOCAB - 1}
        expected = gguf_settings(config, architecture, VOCAB) | {
            "general.architecture": architecture, "general.type": "model", "general.name": f"gguf-{kind}",
            "general.file_type": file_type, "general.quantization_version": 2, "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": list(json.load(open(TESTDATA / "gpt2_bpe/vocab.json"))),
            "tokenizer.ggml.merges": gguf.SpecialVocab(TESTDATA / "gpt2_bpe", load_merges=True).merges,
            "tokenizer.ggml.token_type": [1] * (VOCAB - 1) + [3]} | {f"tokenizer.ggml.{k}": v for k, v in special.items()}
        for key in kv.keys() | expected.keys():
            a, b = kv.get(key), expected.get(key)
            if a != b and not (isinstance(b, float) and abs(a - b) <= 1e-6 * abs(b)):
                fail(kind, key, "is", a, "expected", b)
    if config.model_type == "mistral":  # which a GGUF file calls a llama
        return ", GGUF"
    # What transformers does not take from a GGUF file's settings: GPT-2's positions, windows, scaling,
    # biases, Qwen 3's head_dim.
    told = config.model_type in ("gpt2", "qwen3") or name in ("llama with biases", "llama 3.1", "llama, stretched",
                                                   "qwen2 with windows")
    loaded = type(model).from_pretrained(f"{scratch}/gguf-fp32", gguf_file="model.gguf", dtype=torch.float32,
                                         **{"config": config} if told else {}).eval()
    ids = torch.arange(1, 5)[None] * 7 % VOCAB
    with torch.no_grad():
        expected, logits = model.float()(ids).logits, loaded(ids).logits
    worst = ((logits - expected).abs().max() / expected.abs().max()).item()
    if not worst < 1e-5:
        fail("logits of the GGUF file differ by", worst)
    return f", GGUF with logits {worst:.1e}"


def check_gguf_tokenizer(options, name, pre, scratch):
    """A tokenizer.json is in the key-values token by token; transformers reads it and finds the same ids."""
    original, core, folder = (f"{scratch}/{name}-{x}" for x in ("hf", "core", "gguf"))
    path = TESTDATA / f"huggingface/{name}.json"
    stored = json.load(open(path))
    added = {token["id"]: token for token in stored["added_tokens"]}
    tokens = {i: t for t, i in stored["model"]["vocab"].items()} | {i: t["content"] for i, t in added.items()}
    vocab = max(tokens) + 3
    model = build(T.LlamaConfig(**LLAMA | dict(vocab_size=vocab, bos_token_id=1, eos_token_id=2)), torch.float32)
    model.save_pretrained(original)
    shutil.copy(path, f"{original}/tokenizer.json")
    special = [t["content"] for t in added.values() if t["special"]]
    json.dump({"bos_token": special[0], "eos_token": {"content": special[-1]}, "chat_template": "{{ messages }}"},
              open(f"{original}/tokenizer_config.json", "w"))
    run(f"{options.bin}/mt-convert", "--quiet", original, core)
    run(f"{options.bin}/mt-convert", "--quiet", "--saver", "gguf", core, folder)
    kv = key_values(gguf.GGUFReader(f"{folder}/model.gguf"))
    theirs = gguf.SpecialVocab(original, load_merges=pre is not None, n_vocab=vocab)
    unknown = stored["model"].get("unk_token")
    expected = {"model": "gpt2" if pre else "llama", "pre": pre or "default",
                "tokens": [tokens.get(i, f"[PAD{i}]") for i in range(vocab)],
                "token_type": [5 if i not in tokens else 2 if tokens[i] == unknown and not pre else
                               (3 if added[i]["special"] else 4) if i in added else
                               6 if not pre and tokens[i].startswith("<0x") else 1 for i in range(vocab)]}
    expected |= {f"{k}_token_id": v for k, v in theirs.special_token_ids.items()}
    expected |= {f"add_{k}_token": v for k, v in theirs.add_special_token.items() if k != "sep"}
    if pre:
        expected["merges"] = theirs.merges
    for key, value in expected.items():
        if kv.get(f"tokenizer.ggml.{key}") != value:
            fail(name, key, "is", kv.get(f"tokenizer.ggml.{key}"), "expected", value)
    if kv.get("tokenizer.chat_template") != theirs.chat_template:
        fail(name, "chat template is", kv.get("tokenizer.chat_template"))
    print(f"tokenizer {name}: {vocab} tokens, {len(expected)} key-values")


def check_gguf_sentencepiece(options, scratch):
    """Of a tokenizer.model: pieces, scores and types as SentencePiece's own package says."""
    original, folder = f"{scratch}/pieces-hf", f"{scratch}/pieces-gguf"
    model = sentencepiece.SentencePieceProcessor(str(TESTDATA / "sentencepiece/bpe.model"))
    vocab = model.vocab_size() + 2
    build(T.LlamaConfig(**LLAMA | dict(vocab_size=vocab)), torch.float32).save_pretrained(original)
    shutil.copy(TESTDATA / "sentencepiece/bpe.model", f"{original}/tokenizer.model")
    run(f"{options.bin}/mt-convert", "--quiet", "--saver", "gguf", original, folder)
    kv = key_values(gguf.GGUFReader(f"{folder}/model.gguf"))
    ids = range(model.vocab_size())
    kind = [6 if model.is_byte(i) else 3 if model.is_control(i) else 2 if model.is_unknown(i) else
            5 if model.is_unused(i) else 1 for i in ids]
    expected = {"model": "llama", "pre": "default", "tokens": [model.id_to_piece(i) for i in ids] + [
                    f"[PAD{i}]" for i in range(model.vocab_size(), vocab)], "token_type": kind + [5] * 2,
                "scores": [model.get_score(i) for i in ids] + [-10000.0] * 2, "bos_token_id": model.bos_id(),
                "eos_token_id": model.eos_id(), "unknown_token_id": model.unk_id()}
    for key, value in expected.items():
        got = kv.get(f"tokenizer.ggml.{key}")
        if key == "token_type":  # the package does not tell user-defined pieces from normal ones
            got = [1 if t == 4 else t for t in got]
        if got != value:
            fail("tokenizer.model:", key, "is", got, "expected", value)
    print(f"tokenizer.model: {vocab} tokens")


def check(options, name, config, dtype, shards):
    with tempfile.TemporaryDirectory() as scratch:
        original, core, back = (f"{scratch}/{x}" for x in ("original", "core", "back"))
        model = build(config, dtype)
        model.save_pretrained(original, **shards)
        for file, copy in (("vocab.json", "vocab.json"), ("merges.txt", "merges.txt")):
            shutil.copy(TESTDATA / "gpt2_bpe" / file, f"{original}/{copy}")
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", original, core)
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver", "hf", core, back)
        count = same_tensors(original, back)
        same_settings(model.config, back)
        for file in ("vocab.json", "merges.txt", "generation_config.json"):
            if os.path.exists(f"{original}/{file}") and open(f"{original}/{file}").read() != open(f"{back}/{file}").read():
                fail(file, "differs")
        check_core(f"{core}/release")
        check_no_common_file(options, core, scratch)
        tokenizer = T.GPT2Tokenizer(f"{original}/vocab.json", f"{original}/merges.txt")
        loaded = check_loads(back, dtype, auto_class(config))
        computed = dtype == torch.float32 and config.model_type not in TENSORS_ONLY
        result = f", logits {check_logits(options, model, tokenizer, core):.1e}" if computed else ""
        if config.model_type in GGUF_ARCHITECTURES and "erf" not in name:  # llama.cpp's GPT-2 has GeLU by tanh
            result += check_gguf(options, name, loaded, core, scratch)
        print(f"{name}, {str(dtype)[6:]}, {len(os.listdir(original))} files: {count} tensors{result}")
        if name == "llama with query groups":
            check_meta(options, model, original, scratch)
        if options.megatron and dtype == torch.float32 and name in ("mixtral", "megatron-bert"):
            os.mkdir(f"{scratch}/loaded")
            run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver-transformer-impl", "local", original,
                f"{scratch}/local")
            torch.multiprocessing.spawn(megatron_keys, (f"{scratch}/local/release", f"{scratch}/loaded"), nprocs=1)
            if name == "mixtral":
                run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver-transformer-impl", "local",
                    "--ckpt-format", "torch", "--target-expert-parallel-size", "2", original, f"{scratch}/experts")
                torch.multiprocessing.spawn(megatron_experts, (f"{scratch}/experts/release", f"{scratch}/loaded"), nprocs=2)
            print(f"  Megatron-Core loads {len(torch.load(f'{scratch}/loaded/loaded.pt'))} tensors")
        if options.megatron and dtype == torch.float32 and name in MEGATRON:
            check_megatron(options, model, core, scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; default all")
    parser.add_argument("--megatron", action="store_true")
    options = parser.parse_args()
    for name, config in MODELS.items():
        if options.models and name not in options.models:
            continue
        check(options, name, config, torch.float32, {})
        check(options, name, config, torch.bfloat16, {"max_shard_size": "20KB"})
    with tempfile.TemporaryDirectory() as scratch:
        for name, pre in GGUF_TOKENIZERS.items():
            check_gguf_tokenizer(options, name, pre, scratch)
        check_gguf_sentencepiece(options, scratch)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
