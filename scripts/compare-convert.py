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
import json
import os
import pathlib
import shutil
import sys
import tempfile

import megatron_core
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp

from convert_checks import LLAMA, T, TESTDATA, VOCAB, auto_class, build, fail, failures, run
from gguf_checks import GGUF_ARCHITECTURES, check_gguf, check_gguf_sentencepiece, check_gguf_tokenizers

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
    "qwen2_moe": T.Qwen2MoeConfig(**LLAMA, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=64,
                                  shared_expert_intermediate_size=48),
    "qwen3_moe": T.Qwen3MoeConfig(**LLAMA, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=64, head_dim=16,
                                  norm_topk_prob=True),
    "gemma": T.GemmaConfig(**LLAMA, head_dim=16),
    "megatron-bert": T.MegatronBertConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                          intermediate_size=72, max_position_embeddings=64, bos_token_id=3),
    "mamba2": T.Mamba2Config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8,
                             state_size=16, n_groups=1, bos_token_id=3, eos_token_id=3),
    "mamba2, tied, groups": T.Mamba2Config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_heads=4,
                                           head_dim=16, state_size=8, n_groups=2, tie_word_embeddings=True),
}
# Model types that mt-generate does not run, or whose texts compare-experts.py compares.
TENSORS_ONLY = ("mixtral", "qwen2_moe", "qwen3_moe", "megatron-bert", "mamba2")
MEGATRON = ("gpt2", "llama with query groups", "llama, tied", "qwen2")  # that its local specification computes
TEXTS = ["The quick brown fox", "12 + 30 = 42, and so on", "def f(x): return x"]
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
        prompt = tokenizer(text).input_ids
        if tokenizer.bos_token_id is not None:  # a text begins behind the end of another
            prompt = [tokenizer.eos_token_id] + prompt
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


def megatron_rank(rank, tp, pp, folder, work):
    """One rank loads its file; without stages, rank 0 leaves the logits of all together in WORK."""
    core = megatron_core.import_megatron()
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
    config = megatron_core.transformer_config(core, args)
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
    core = megatron_core.import_megatron()
    from megatron.core.models.bert import bert_layer_specs, bert_model
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=1)
    core.parallel_state.initialize_model_parallel()
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    args = core.dist_checkpointing.load_common_state_dict(folder)["args"]
    args.num_moe_experts = args.num_experts
    config = megatron_core.transformer_config(core, args)
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
    core = megatron_core.import_megatron()
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
    config = megatron_core.transformer_config(core, args)
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


def ffn_by_meta(params):
    """As Meta's FeedForward finds it."""
    width, multiple = int(2 * 4 * params["dim"] / 3), params["multiple_of"]
    width = int(params.get("ffn_dim_multiplier", 1) * width)
    return multiple * ((width + multiple - 1) // multiple)


def check_meta(options, model, original, scratch):
    for ranks in (1, 2):
        folder, core, back, made = (f"{scratch}/meta{ranks}{x}" for x in ("", "core", "back", "made"))
        write_meta(model, folder, ranks)
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--loader", "llama_mistral", folder, core)
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver", "hf", core, back)
        run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver", "meta", "--target-tensor-parallel-size",
            str(ranks), core, made)
        for rank in range(ranks):
            theirs, ours = (torch.load(f"{x}/consolidated.{rank:02}.pth", weights_only=True) for x in (folder, made))
            del theirs["rope.freqs"]
            if theirs.keys() != ours.keys() or not all(torch.equal(theirs[k], ours[k]) for k in theirs):
                fail(f"consolidated.{rank:02}.pth of {ranks} differs")
        if ffn_by_meta(json.load(open(f"{made}/params.json"))) != model.config.intermediate_size:
            fail("params.json: another feed-forward width")
        print(f"  the same {same_tensors(original, back)} tensors from {ranks} of Meta's files, and in {ranks} written")


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
        if config.model_type.startswith("qwen"):  # whose class of tokenizers transformers takes
            tokenizer = T.AutoTokenizer.from_pretrained(original)
        else:
            tokenizer = T.GPT2Tokenizer(f"{original}/vocab.json", f"{original}/merges.txt")
        loaded = check_loads(back, dtype, auto_class(config))
        computed = dtype == torch.float32 and config.model_type not in TENSORS_ONLY
        result = f", logits {check_logits(options, model, tokenizer, core):.1e}" if computed else ""
        if config.model_type in GGUF_ARCHITECTURES and "erf" not in name:  # llama.cpp's GPT-2 has GeLU by tanh
            result += check_gguf(options, name, loaded, tokenizer, core, scratch)
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
        check_gguf_tokenizers(options, scratch)
        check_gguf_sentencepiece(options, scratch)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
