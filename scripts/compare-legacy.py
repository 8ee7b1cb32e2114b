#!/usr/bin/env python3
"""Convert checkpoints of Megatron-LM's legacy classes, and compare what the models say.

For each case below the ranks of a layout make a random model of megatron.legacy and save it as the torch format was
at its checkpoint_version: below 3 with the names of that time and with torch.save's form of before PyTorch 1.6, in
an order of queries, keys and values that Megatron-LM's own fix_query_key_value_ordering() turns into today's.
Megatron-LM then finds the logits of random tokens; mt-convert makes a folder of Hugging Face's of the checkpoint,
and transformers must find the same logits, to 1e-5.  Of the checkpoint mt-convert --saver legacy makes another, for
another layout, whose ranks must load it, strictly, with each parameter as it was.  With --golden FOLDER small ones are written for the tests.

Needs a checkout of Megatron-LM core_v0.12.1, and from PyPI torch, transformers, einops (tried with 2.15.0, 5.23.0,
0.8.2).
Run:  scripts/compare-legacy.py MEGATRON BIN [CASE ...] [--golden FOLDER]        BIN holds mt-convert
"""
import argparse
import os
import subprocess
import sys
import tempfile
import types
import zlib

import megatron_core
import torch  # noqa: E402
import transformers as T  # noqa: E402

T.logging.set_verbosity_error()
VOCAB, ROWS = 61, 64  # of all layouts
SIZES = "--num-layers 2 --hidden-size 8 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16"
LLAMA = ("--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear --ffn-hidden-size 24 "
         "--untie-embeddings-and-output-weights")
# What each is: version, tensor ranks, stages, options.  Written, it is of the layout behind.
CASES = {
    "gpt-0": (0, 2, 1, ""),
    "gpt-1": (1.0, 2, 1, ""),
    "gpt-2": (2.0, 1, 1, ""),
    "gpt-2-erf": (2.0, 1, 1, "--no-bias-gelu-fusion"),
    "gpt-3": (3.0, 2, 2, ""),
    "llama-3": (3.0, 2, 1, LLAMA + " --group-query-attention --num-query-groups 2"),
    "llama-3-stages": (3.0, 1, 2, LLAMA),
    "bert-0": (0, 1, 1, "--no-bias-gelu-fusion"),  # as its head, whose gelu is not fused
    "bert-3": (3.0, 2, 1, "--no-bias-gelu-fusion"),
}
WRITTEN = {(2, 1): (1, 2), (1, 1): (2, 2), (2, 2): (1, 1), (1, 2): (2, 1)}
GOLDENS = ("gpt-0", "gpt-1", "gpt-2")  # of one model
KEPT = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "max_position_embeddings", "fp16",
        "padded_vocab_size", "make_vocab_size_divisible_by", "model_parallel_size", "layernorm_epsilon",
        "bias_gelu_fusion", "kv_channels", "seq_length", "data_parallel_size")  # of the args in them


def old_names(tensors):
    """The state of a model as it was called before: transformer, attention, layernorm."""
    renamed = {}
    for name, value in tensors.items():
        if isinstance(value, dict) and name == "encoder":
            value = {k.replace(".self_attention.", ".attention.").replace("_norm.", "_layernorm."): v
                     for k, v in value.items()}
            name = "transformer"
        elif isinstance(value, dict):
            value = old_names(value)
        renamed[name.replace("norm.", "layernorm.")] = value
    return renamed


def old_args(args, version):
    args = argparse.Namespace(**vars(args))
    if version < 3:
        args.model_parallel_size, args.layernorm_epsilon = args.tensor_model_parallel_size, args.norm_epsilon
        for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "norm_epsilon", "normalization",
                     "position_embedding_type", "add_bias_linear", "swiglu", "untie_embeddings_and_output_weights",
                     "params_dtype", "num_query_groups", "group_query_attention"):
            delattr(args, name)
    return args


def old_order(tensor, version, heads):
    """Rows of a query_key_value, [heads, 3, D], as a version had them."""
    if version == 0:
        rows = tensor.view(heads, 3, -1, *tensor.shape[1:]).transpose(0, 1)
    else:
        rows = tensor.view(heads, 3, -1, *tensor.shape[1:]).transpose(1, 2)
    return rows.reshape(tensor.shape)


def part_of(parameter, key, tp):
    """Numbers that the name of the whole decides."""
    cut = getattr(parameter, "tensor_model_parallel", False)
    shape, axis = list(parameter.shape), getattr(parameter, "partition_dim", 0)
    ranks, rank = (tp[1], tp[0]) if cut else (1, 0)
    shape[axis] *= ranks
    torch.manual_seed(zlib.crc32(key.encode()))
    whole = (key.endswith("norm.weight")) + 0.3 * torch.randn(shape)
    from megatron.training import get_args

    if get_args().swiglu and ".dense_h_to_4h." in key:  # a rank has its parts of the gate and of what that lets through
        return torch.cat([half.chunk(ranks)[rank] for half in whole.chunk(2)])
    return whole.chunk(ranks, axis)[rank]


def parse(name, tp, pp):
    options = CASES[name][3]
    from megatron.training.arguments import parse_args, validate_args

    sys.argv = ["legacy", *SIZES.split(), *options.split(), "--micro-batch-size", "1", "--mock-data",
                "--use-cpu-initialization", "--no-masked-softmax-fusion", "--no-bias-dropout-fusion", "--no-rope-fusion",
                "--no-persist-layer-norm", "--no-gradient-accumulation-fusion", "--no-one-logger",
                "--use-legacy-models", "--transformer-impl", "local", "--attention-backend", "unfused",
                "--ckpt-format", "torch",
                "--no-async-tensor-model-parallel-allreduce", "--hidden-dropout", "0", "--attention-dropout", "0",
                "--tensor-model-parallel-size", str(tp), "--pipeline-model-parallel-size", str(pp)]
    args = validate_args(parse_args())
    args.padded_vocab_size, args.tokenizer_type = ROWS, "NullTokenizer"
    args.vocab_size, args.iteration = None, 7
    return args


def make_model(args, name, first, last):
    sys.modules["fused_layer_norm_cuda"] = types.ModuleType("fused_layer_norm_cuda")  # Apex's norm is PyTorch's
    from megatron.core.enums import ModelType
    from megatron.legacy.model import fused_layer_norm
    from megatron.legacy.model import BertModel, GPTModel
    from megatron.training.arguments import core_transformer_config_from_args

    fused_layer_norm.fused_layer_norm_affine = lambda x, weight, bias, shape, eps: torch.layer_norm(x, shape, weight,
                                                                                                    bias, eps)
    args.model_type = ModelType.encoder_or_decoder
    config = core_transformer_config_from_args(args)
    config.persist_layer_norm = False
    if name.startswith("bert"):
        return BertModel(config, num_tokentypes=2, add_binary_head=True, parallel_output=False, pre_process=first,
                         post_process=last)
    return GPTModel(config, num_tokentypes=0, parallel_output=False, pre_process=first, post_process=last)


def logits_of(model, name, ids):
    length = ids.shape[1]
    if name.startswith("bert"):
        return model(ids, torch.ones_like(ids), tokentype_ids=torch.zeros_like(ids))[0]
    future = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1)
    return model(ids, torch.arange(length)[None], future)


def start_rank(rank, megatron, name, tp, pp, work):
    """The settings, the model of this rank, and its folder."""
    sys.path.insert(0, megatron)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(tp * pp), LOCAL_RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    core = megatron_core.import_megatron()
    torch.set_num_threads(1)
    from megatron.core import num_microbatches_calculator, parallel_state as state
    from megatron.training import global_vars

    torch.distributed.init_process_group("gloo", f"file://{work}/store-{tp}-{pp}", rank=rank, world_size=tp * pp)
    state.initialize_model_parallel(tp, pp)
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    args = parse(name, tp, pp)
    global_vars.set_args(args)
    num_microbatches_calculator.init_num_microbatches_calculator(rank, None, 1, 1, 1)
    path = f"mp_rank_{state.get_tensor_model_parallel_rank():02}"
    if pp > 1:
        path += f"_{state.get_pipeline_model_parallel_rank():03}"
    return args, make_model(args, name, state.is_pipeline_first_stage(),
                            state.is_pipeline_last_stage()).float().eval(), path


def whole_name(key, layers):
    """What a parameter of a stage is called in a model of one; a copy of the words is what they are."""
    if "word_embeddings" in key:
        return "words"
    parts = key.split(".")
    if "layers" in parts:
        from megatron.core import parallel_state as state

        at = parts.index("layers") + 1
        stages = state.get_pipeline_model_parallel_world_size()
        parts[at] = str(int(parts[at]) + state.get_pipeline_model_parallel_rank() * layers // stages)
    return ".".join(parts)


def written_main(rank, megatron, name, tp, pp, folder, work):
    """What mt-convert wrote for this rank is what rank_main() drew."""
    args, model, path = start_rank(rank, megatron, name, tp, pp, work)
    from megatron.core import parallel_state as state

    torch.serialization.add_safe_globals([argparse.Namespace, type(args.attention_backend), type(args.model_type)])
    content = torch.load(f"{folder}/{path}/model_optim_rng.pt", weights_only=True)
    assert content["checkpoint_version"] == 3.0 and content["args"].use_legacy_models
    wanted = model.state_dict_for_save_checkpoint()
    assert names_in(content["model"]) == names_in(wanted), (names_in(content["model"]), names_in(wanted))
    model.load_state_dict(content["model"], strict=True)
    for key, parameter in model.named_parameters():
        expected = part_of(parameter, whole_name(key, args.num_layers), (state.get_tensor_model_parallel_rank(), tp))
        rows = VOCAB - state.get_tensor_model_parallel_rank() * len(parameter) if "word_embeddings" in key else None
        assert torch.equal(parameter[:rows], expected[:rows]), key
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def names_in(tensors):
    return {key: names_in(value) for key, value in tensors.items()} if isinstance(tensors, dict) else None


def rank_main(rank, megatron, name, folder, work, golden):
    version, tp, pp, _ = CASES[name]
    args, model, path = start_rank(rank, megatron, name, tp, pp, work)
    from megatron.core import parallel_state as state
    from megatron.training.checkpointing import fix_query_key_value_ordering

    ranks = (state.get_tensor_model_parallel_rank(), tp)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(part_of(parameter, whole_name(key, args.num_layers), ranks))
            if version < 2 and ".query_key_value." in key:
                parameter.copy_(old_order(parameter.clone(), version, args.num_attention_heads // tp))
    saved = model.state_dict_for_save_checkpoint()
    if version < 2:
        saved = old_names(saved)
    os.makedirs(f"{folder}/iter_0000007/{path}")
    known = old_args(args, version)
    if golden:
        known = argparse.Namespace(**{k: v for k, v in vars(known).items() if k in KEPT})
    content = {"args": known, "iteration": 7, "model": saved}
    if version > 0:
        content["checkpoint_version"] = version
    file = f"{folder}/iter_0000007/{path}/model_optim_rng.pt"
    torch.save(content, file, _use_new_zipfile_serialization=version >= 3)
    if version < 2:  # as Megatron-LM loads it
        model.load_state_dict(saved)
        fix_query_key_value_ordering(model, version)
    if pp == 1:
        ids = torch.load(f"{work}/ids.pt")
        with torch.no_grad():
            logits = logits_of(model, name, ids)
        if rank == 0:
            torch.save(logits[..., :VOCAB], f"{work}/logits.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def check(options, name):
    version, tp, pp, _ = CASES[name]
    with tempfile.TemporaryDirectory() as work:
        torch.manual_seed(2)
        ids = torch.randint(0, VOCAB, (2, 16))
        torch.save(ids, f"{work}/ids.pt")
        folder = f"{options.golden}/{name}" if options.golden else f"{work}/legacy"
        torch.multiprocessing.spawn(rank_main, (options.megatron, name, folder, work, options.golden), nprocs=tp * pp)
        with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
            file.write("7")
        command = [f"{options.bin}/mt-convert", "--quiet", "--loader", "legacy", "--true-vocab-size", str(VOCAB)]
        subprocess.run([*command, "--verify", folder, f"{work}/core"], check=True)
        subprocess.run([*command, "--saver", "hf", "--verify", folder, f"{work}/hf"], check=True)
        tp, pp = WRITTEN[CASES[name][1:3]]
        subprocess.run([*command, "--saver", "legacy", "--verify", "--target-tensor-parallel-size", str(tp),
                        "--target-pipeline-parallel-size", str(pp), "--make-vocab-size-divisible-by", str(ROWS // tp),
                        folder, f"{work}/written"], check=True)
        torch.multiprocessing.spawn(written_main, (options.megatron, name, tp, pp, f"{work}/written/iter_0000007", work),
                                    nprocs=tp * pp)
        print(f"{name}: --saver legacy: its own parameters on ranks {tp, pp}")
        if CASES[name][2] > 1:  # the last stage has a copy of tied embeddings: what of them is read must be the same
            subprocess.run([f"{options.bin}/mt-convert", "diff", f"{work}/core", f"{work}/hf"], check=True)
            return print(f"{name}: converts")
        kind = T.MegatronBertForPreTraining if name.startswith("bert") else T.AutoModelForCausalLM
        model = kind.from_pretrained(f"{work}/hf", dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad():
            found = model(ids)
        found = found.prediction_logits if name.startswith("bert") else found.logits
        expected = torch.load(f"{work}/logits.pt")
        worst = ((found - expected).abs().max() / expected.abs().max()).item()
        print(f"{name}: logits differ by {worst:.1e}")
        if not worst < 1e-5:
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megatron")
    parser.add_argument("bin")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default all")
    parser.add_argument("--golden", metavar="FOLDER")
    options = parser.parse_args()
    for name in GOLDENS if options.golden else options.cases or CASES:
        check(options, name)


if __name__ == "__main__":
    main()
