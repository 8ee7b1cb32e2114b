#!/usr/bin/env python3
"""Optimizers in Megatron's formats, of many layouts, between mt-convert and Megatron-Core.

For each optimizer below, of a tiny random GPT-2 (tied), Llama (query groups, untied), BERT, T5, whose encoder has
stages of its own or not, hybrid of Mamba layers and Mixtral, whose experts several ranks share out or not and are
SequentialMLP's, TEGroupedMLP's (over linear layers that have the parameters of Transformer Engine's alone) or, read
only, GroupedMLP's:
  - the ranks of one layout load the weights that mt-convert wrote for them, make their optimizer, set the moments of
    each parameter to 2 and 3 times its fp32 value, and save as Megatron-LM 0.12.1 does: in the torch format,
    model_optim_rng.pt, and distrib_optim.pt with the distributed optimizer, in torch_dist, and of a rank alone in torch_dcp;
  - mt-convert --with-optimizer makes a torch_dist checkpoint of each, in which each moment must be 2 or 3 times the
    fp32 value, bit for bit;
  - and of that checkpoints of another layout in those formats, which Megatron-Core's ranks there load with its own
    readers: on each rank, names must stand in the order of its own, and each parameter must have its moments.
Of ranks that share out the distributed optimizer's work, torch_dist checkpoints that keep its state as their buffers are
must give the same moments: dp_zero_gather_scatter, and, with --later, dp_reshardable.

Needs from PyPI: torch, transformers, safetensors and megatron-core 0.12.1 (see compare-megatron.py); --later FOLDER, what
`pip install --no-deps --target FOLDER megatron-core==0.16.1` makes.
With --golden FOLDER what the first step saves of a tiny model, GPT-2 if no other is named, is left there, for the tests.

Run:  scripts/compare-ranks.py BIN [-j N]        BIN holds mt-convert
"""
import argparse
import concurrent.futures
import importlib
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import typing

ours = importlib.import_module("compare-megatron")
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers as T  # noqa: E402

T.logging.set_verbosity_error()
SIZES = dict(num_hidden_layers=4, num_attention_heads=4, hidden_size=32, intermediate_size=88)
MODELS = {
    "gpt2": T.GPT2Config(vocab_size=380, n_positions=64, n_embd=32, n_layer=4, n_head=4),
    "llama": T.LlamaConfig(vocab_size=380, max_position_embeddings=64, num_key_value_heads=2, **SIZES),
    "mixtral": T.MixtralConfig(vocab_size=380, max_position_embeddings=64, num_key_value_heads=2, num_local_experts=4,
                               **SIZES),
    "bert": T.MegatronBertConfig(vocab_size=380, max_position_embeddings=64, **SIZES),
    "t5": T.T5Config(vocab_size=380, d_model=64, d_kv=16, d_ff=72, num_layers=2, num_decoder_layers=3, num_heads=4,
                     relative_attention_num_buckets=12),
    "t5 1.1": T.T5Config(vocab_size=380, d_model=40, d_kv=16, d_ff=72, num_layers=3, num_decoder_layers=2, num_heads=4,
                         feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "hybrid": T.NemotronHConfig(vocab_size=380, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                intermediate_size=72, ssm_state_size=6, n_groups=2, mamba_num_heads=8, mamba_head_dim=8,
                                layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention"]),
}


ENGINES = ("hybrid", "mixtral grouped")  # of layers with Transformer Engine's names
MODELS |= {"mixtral grouped": MODELS["mixtral"], "mixtral gemm": MODELS["mixtral"]}


def build(config):
    kinds = {"megatron-bert": T.MegatronBertForPreTraining, "t5": T.T5ForConditionalGeneration,
             "nemotron_h": T.NemotronHForCausalLM}
    return kinds.get(config.model_type, T.AutoModelForCausalLM.from_config)(config)


class Layout(typing.NamedTuple):
    tp: int
    pp: int = 1
    vp: int = 1  # chunks of a stage
    ep: int = 1
    encoder: int = 0  # stages of a T5's encoder, in front
    dp: int = 1

    def ranks(self):
        return self.tp * (self.pp + self.encoder) * self.ep * self.dp

    def __str__(self):
        return str(tuple(self))


LAYOUTS = [(Layout(2, 2), Layout(1, 4)), (Layout(1, 2, 2), Layout(2)), (Layout(1), Layout(2, 2, 2))]
EXPERT_LAYOUTS = [(Layout(2, 1, 1, 2), Layout(1, 2, 2)), (Layout(1, 2), Layout(1, 1, 1, 4)),
                  (Layout(1, 2, 2, 2), Layout(2, 1, 1, 2)), (Layout(1, 1, 1, 4), Layout(1, 2, 1, 2))]
ONE_CHUNK_LAYOUTS = [(Layout(2, 2), Layout(1, 4)), (Layout(1, 2), Layout(2))]
# Megatron-Core makes no distributed optimizer of a stage whose tied embeddings get a bucket that does not begin at a
# multiple of 128 elements, such as the last of several stages of a BERT and the first of an encoder of t5 1.1.
BERT_LAYOUTS = [(Layout(2, 2), Layout(1, 4)), (Layout(1), Layout(2))]
ONE_STAGE_LAYOUTS = [(Layout(2), Layout(1)), (Layout(1), Layout(2))]


def t5_layouts(decoder, encoder, distributed):
    """For each optimizer in turn, and then again with stages of the encoder; the last is a distributed one."""
    return ONE_STAGE_LAYOUTS * 2 + [
        (Layout(2, decoder, encoder=encoder), Layout(1, 1, encoder=1)), (Layout(1, 1, encoder=1), Layout(2)),
        (Layout(1), Layout(1, decoder, encoder=1)), (Layout(2, 1, encoder=1), Layout(1, 1, encoder=distributed))]


def formats_of(name, layout, distributed):
    """Those that Megatron-LM writes; the last one of a rank alone.  Grouped experts differ in the torch format only.  Where a
    T5's encoder has stages of its own, each stage has positions of its own, of which torch_dist takes none."""
    if name.startswith("mixtral ") or layout.encoder:
        return ("torch",)
    alone = layout == Layout(1) and not distributed
    return ("torch", "torch_dist", "torch_dcp") if alone else ("torch", "torch_dist")


FACTORS = {"exp_avg": 2, "exp_avg_sq": 3}


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")


def gpt_model(core, args, experts="", **stage):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    config = ours.transformer_config(core, args)
    config.sequence_parallel = False  # for which it has no norm of PyTorch's
    spec = get_gpt_layer_local_spec(args.num_moe_experts, normalization=args.normalization)
    if experts:
        set_experts(core, spec.submodules, experts)
    return GPTModel(config, spec,
                    args.padded_vocab_size, args.max_position_embeddings,
                    share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                    position_embedding_type=args.position_embedding_type, **stage)


def set_experts(core, layer, experts):
    """Grouped ones, in a layer that has Transformer Engine's names, or GroupedMLP's, of which the kernels are not there."""
    from megatron.core.transformer import identity_op, mlp, spec_utils
    from megatron.core.transformer.moe import experts as kinds, grouped_gemm_util

    if experts == "gemm":
        grouped_gemm_util.assert_grouped_gemm_is_available = lambda: None
        layer.mlp.submodules.experts = spec_utils.ModuleSpec(kinds.GroupedMLP)
        return
    families = importlib.import_module("compare-convert-families")
    state = core.parallel_state

    class GroupedLinear(torch.nn.Module):
        cut = None  # the axis that tensor ranks share

        def __init__(self, count, inputs, outputs, *, config, **_):
            super().__init__()
            shape = [outputs, inputs]
            shape[self.cut] //= state.get_expert_tensor_parallel_world_size()
            for i in range(count):
                weight = torch.nn.Parameter(torch.zeros(shape))
                weight.allreduce = config.expert_model_parallel_size == 1
                core.tensor_parallel.set_tensor_model_parallel_attributes(weight, True, self.cut, 1)
                self.register_parameter(f"weight{i}", weight)

        def get_extra_state(self):
            return None

        def set_extra_state(self, state):
            pass

    class Columns(GroupedLinear):
        cut = 0

    class Rows(GroupedLinear):
        cut = 1

    layer.input_layernorm = identity_op.IdentityOp
    layer.self_attention.submodules.linear_qkv = families.normed_linear()
    layer.mlp.submodules.experts = spec_utils.ModuleSpec(
        kinds.TEGroupedMLP, submodules=mlp.MLPSubmodules(linear_fc1=Columns, linear_fc2=Rows))


def as_gemm(state, experts):
    """A SequentialMLP's weights as a GroupedMLP of so many experts has them."""
    grouped = {}
    for name, value in state.items():
        if ".local_experts." not in name:
            grouped[name] = value
        elif ".local_experts.0." in name and name.endswith(".weight"):
            parts = [state[name.replace(".local_experts.0.", f".local_experts.{i}.")].T for i in range(experts)]
            whole = torch.stack(parts)  # [experts, in, out]
            first = "linear_fc1" in name
            grouped[name[:name.index("local_experts")] + ("weight1" if first else "weight2")] = (
                whole.view(whole.shape[1], -1) if first else whole.view(-1, whole.shape[2]))
    return grouped


def t5_stage(core, layout):
    """What Megatron-LM's get_model() tells a stage of a T5."""
    if layout.encoder == 0:
        return {}
    rank = core.parallel_state.get_pipeline_model_parallel_rank()
    return dict(pre_process=rank in (0, layout.encoder), add_encoder=rank < layout.encoder, add_decoder=rank >= layout.encoder,
                post_process=rank in (layout.encoder - 1, layout.encoder + layout.pp - 1))


def make_models(core, name, args, layout):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig

    families = importlib.import_module("compare-convert-families")
    make = {"bert": families.bert_model, "hybrid": families.mamba_model}.get(name, gpt_model)
    state = core.parallel_state
    args.pipeline_dtype = args.params_dtype
    args.virtual_pipeline_model_parallel_size = layout.vp if layout.vp > 1 else None
    args.num_moe_experts = getattr(args, "num_experts", None)
    args.sequence_parallel = layout.ep > 1 and layout.tp > 1  # which it asks for
    sharded = DistributedDataParallelConfig(use_distributed_optimizer=args.use_distributed_optimizer,
                                            grad_reduce_in_fp32=args.params_dtype == torch.bfloat16)
    models = []
    for chunk in range(layout.vp):
        if layout.vp > 1:
            state.set_virtual_pipeline_model_parallel_rank(chunk)
        if name.startswith("t5"):
            model = families.t5_model(core, args, **t5_stage(core, layout))
        else:
            experts = {"experts": name.split(" ")[1]} if name.startswith("mixtral ") else {}
            model = make(core, args, **experts, pre_process=state.is_pipeline_first_stage(),
                         post_process=state.is_pipeline_last_stage())
        model.model_type = core.enums.ModelType.encoder_or_decoder
        models.append(DistributedDataParallel(model.config, sharded, model.to(args.params_dtype), disable_bucketing=chunk > 0))
    return models


def make_optimizer(core, models, args):
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=0.01, min_lr=0.001, weight_decay=0.1, params_dtype=args.params_dtype,
                        bf16=args.params_dtype == torch.bfloat16,
                        use_distributed_optimizer=args.use_distributed_optimizer), models)
    optimizer.reload_model_params()
    before = [p.clone() for group in optimizer.param_groups for p in group["params"]]
    ours.make_state(optimizer)
    for p, old in zip((p for group in optimizer.param_groups for p in group["params"]), before):
        p.data.copy_(old)  # decay has changed it
    return optimizer


def moments(optimizer):
    """(fp32 parameter or part of it, its state) of all."""
    for chained in optimizer.chained_optimizers:
        inner = chained.optimizer
        for group in inner.param_groups:
            for parameter in group["params"]:
                yield parameter, inner.state[parameter]


def load_dist(core, folder, models, keys, optimizer):
    """What Megatron-LM's load_checkpoint() does with torch_dist."""
    weights = {key: model.module.sharded_state_dict() for key, model in zip(keys, models)}
    found = core.dist_checkpointing.load(
        {**weights, "optimizer": optimizer.sharded_state_dict(weights, is_loading=True)}, folder)
    optimizer.load_state_dict(found["optimizer"])


def save_dist(core, folder, models, keys, optimizer, common, **sharding):
    state = {key: model.module.sharded_state_dict() for key, model in zip(keys, models)}
    state["optimizer"] = optimizer.sharded_state_dict(state, **sharding)
    if torch.distributed.get_rank() == 0:
        os.makedirs(folder)
    torch.distributed.barrier()
    core.dist_checkpointing.save({**common, **state}, folder)


def rank_main(rank, name, layout, folder, saved, distributed, work):
    """Loads the weights from FOLDER and saves with an optimizer to SAVED/FORMAT; without SAVED the optimizer is loaded.
    With the name of a form in DISTRIBUTED, the distributed optimizer's state is saved in it, to SAVED/FORM."""
    later = distributed == "dp_reshardable"
    if later:
        sys.path.insert(0, os.environ["LATER_CORE"])
    core = ours.import_megatron("0.16.1" if later else "0.12.1")
    torch.set_num_threads(1)
    tp, pp, vp, ep, encoder, dp = layout
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=layout.ranks())
    ends = {}
    if encoder:  # as Megatron-LM's pretrain_t5.py has them
        ends = dict(get_embedding_ranks=lambda ranks: sorted({ranks[0], ranks[encoder], ranks[-1]}),
                    get_position_embedding_ranks=lambda ranks: [ranks[0], ranks[encoder]],
                    encoder_tensor_model_parallel_size=tp, encoder_pipeline_model_parallel_size=encoder)
    core.parallel_state.initialize_model_parallel(tp, pp, vp if vp > 1 else None, expert_model_parallel_size=ep, **ends)
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    stage = core.parallel_state.get_pipeline_model_parallel_rank()
    own_folder = f"mp_rank_{core.parallel_state.get_tensor_model_parallel_rank():02}" + (
        f"_{stage:03}" if pp + encoder > 1 else "")
    if ep > 1:
        own_folder += f"_{core.parallel_state.get_expert_model_parallel_rank():03}"
    torch.serialization.add_safe_globals([argparse.Namespace])
    ranks = f"{folder}/torch/iter_0000007" if os.path.exists(f"{folder}/torch") else folder
    state = torch.load(f"{ranks}/{own_folder}/model_optim_rng.pt", weights_only=True)
    args = state["args"]
    args.use_distributed_optimizer = bool(distributed)
    args.data_parallel_size = dp
    args.transformer_impl = "transformer_engine" if name in ENGINES else "local"
    models = make_models(core, name, args, layout)
    keys = ["model"] if vp == 1 else [f"model{i}" for i in range(vp)]
    for key, model in zip(keys, models):
        if name == "mixtral gemm":
            state[key] = as_gemm(state[key], args.num_experts // ep)
        model.module.load_state_dict(state[key], strict=True)
        weights = [[name for name in names if not name.endswith("_extra_state")]
                   for names in (state[key], model.module.state_dict())]
        assert weights[0] == weights[1], weights
    optimizer = make_optimizer(core, models, args)
    if saved:
        for parameter, kept in moments(optimizer):
            for moment, factor in FACTORS.items():
                kept[moment].copy_(factor * parameter)
        if isinstance(distributed, str):
            common = {key: value for key, value in state.items() if key not in keys} | {"iteration": 7}
            save_dist(core, f"{saved}/{distributed}/iter_0000007", models, keys, optimizer, common, sharding_type=distributed)
            torch.distributed.barrier()
            return torch.distributed.destroy_process_group()
        own = f"{saved}/torch/iter_0000007/{own_folder}"
        os.makedirs(own)
        if distributed:
            optimizer.save_parameter_state(f"{own}/distrib_optim.pt")
        common = {key: value for key, value in state.items() if key not in keys} | {"iteration": 7}
        torch.save({**common, "optimizer": optimizer.state_dict(), **{
            key: model.module.state_dict_for_save_checkpoint() for key, model in zip(keys, models)}},
                   f"{own}/model_optim_rng.pt")
        forms = formats_of(name, layout, distributed)
        if "torch_dist" in forms:
            save_dist(core, f"{saved}/torch_dist/iter_0000007", models, keys, optimizer, common)
        if "torch_dcp" in forms:
            dcp.save({**common, "model": models[0].module.state_dict(), "optimizer": optimizer.state_dict()},
                     checkpoint_id=f"{saved}/torch_dcp/iter_0000007")
    else:
        own = {p.data_ptr() for model in models for p in model.parameters()}  # in fp32 not the optimizer's
        for form in formats_of(name, layout, distributed):
            for parameter, kept in moments(optimizer):
                for moment in FACTORS:
                    kept[moment].fill_(-1)
                if parameter.data_ptr() not in own:
                    parameter.data.fill_(-1)
            with torch.no_grad():
                if form == "torch_dist":
                    load_dist(core, f"{folder}/{form}/iter_0000007", models, keys, optimizer)
                elif form == "torch_dcp":
                    wanted = {"optimizer": optimizer.state_dict()}
                    dcp.load(wanted, checkpoint_id=f"{folder}/{form}/iter_0000007")
                    optimizer.load_state_dict(wanted["optimizer"])
                else:
                    optimizer.load_state_dict(state["optimizer"])
                    if distributed:
                        optimizer.load_parameter_state(f"{ranks}/{own_folder}/distrib_optim.pt")
            for parameter, kept in moments(optimizer):
                for moment, factor in FACTORS.items():
                    assert torch.equal(kept[moment], factor * parameter), (form, own_folder, moment, parameter.shape)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def spawn(name, layout, *more):
    with tempfile.TemporaryDirectory() as work:
        torch.multiprocessing.start_processes(rank_main, (name, layout, *more, work), nprocs=layout.ranks(),
                                              start_method="forkserver")


def layout_flags(name, layout, form="torch"):
    specification = "transformer_engine" if name in ENGINES else "local"
    flags = ["--ckpt-format", form, "--saver-transformer-impl", specification, "--target-tensor-parallel-size",
             str(layout.tp), "--target-pipeline-parallel-size", str(layout.pp), "--target-expert-parallel-size",
             str(layout.ep), "--target-encoder-pipeline-parallel-size", str(layout.encoder)]
    if name == "mixtral grouped":
        flags.append("--moe-grouped-gemm")
    return flags + (["--num-virtual-stages-per-pipeline-rank", str(layout.vp)] if layout.vp > 1 else [])


def tensors_of(folder):
    reader = dcp.FileSystemReader(folder)
    state = {k: torch.empty(e.size, dtype=e.properties.dtype)
             for k, e in reader.read_metadata().state_dict_metadata.items() if hasattr(e, "size")}
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


def check_moments(folder):
    state = tensors_of(folder)
    count = 0
    for key, tensor in state.items():
        for moment, factor in FACTORS.items():
            prefix = f"optimizer.state.{moment}."
            if not key.startswith(prefix):
                continue
            fp32 = state.get("optimizer.state.fp32_param." + key[len(prefix):], state[key[len(prefix):]])
            assert torch.equal(tensor, factor * fp32), key
            count += 1
    weights = [key for key in state if not key.startswith(("optimizer.", "lm_head.output_layer."))]  # T5 has that twice
    assert count == 2 * len(weights), (count, len(weights))
    return count


drawing = threading.Lock()


def draw(config, dtype, folder):
    with drawing:
        torch.manual_seed(1)
        build(config).to(dtype).save_pretrained(folder)


def check(bin, name, dtype, distributed, first, second):
    convert = [f"{bin}/mt-convert", "--quiet", "--verify"]
    with tempfile.TemporaryDirectory() as scratch:
        draw(MODELS[name], dtype, f"{scratch}/hf")
        run(*convert, *layout_flags(name, first), f"{scratch}/hf", f"{scratch}/weights")
        spawn(name, first, f"{scratch}/weights/release", f"{scratch}/saved", distributed)
        forms = formats_of(name, first, distributed)
        for form in forms:
            pathlib.Path(scratch, "saved", form, "latest_checkpointed_iteration.txt").write_text("7")
            run(*convert, "--with-optimizer", f"{scratch}/saved/{form}", f"{scratch}/core-{form}")
            count = check_moments(f"{scratch}/core-{form}/iter_0000007")
        if "torch_dist" in forms:
            run(f"{bin}/mt-convert", "diff", f"{scratch}/core-torch", f"{scratch}/core-torch_dist")
        written = "mixtral" if name == "mixtral gemm" else name
        for form in formats_of(written, second, distributed):
            run(*convert, "--with-optimizer", *layout_flags(written, second, form), f"{scratch}/saved/torch",
                f"{scratch}/new/{form}")
        spawn(written, second, f"{scratch}/new", None, distributed)
    return count


# Forms of the distributed optimizer's state that ranks keep as their buffers are, and layouts to write them in.
BUCKET_FORMS = ("dp_zero_gather_scatter", "dp_reshardable")
BUCKET_LAYOUTS = {"gpt2": (Layout(2, 2, dp=2),)}


def save_by_buckets(bin, scratch, config, name, dtype, form, layout, *padding):
    draw(config, dtype, f"{scratch}/hf")
    run(f"{bin}/mt-convert", "--quiet", *padding, *layout_flags(name, layout), f"{scratch}/hf", f"{scratch}/weights")
    spawn(name, layout, f"{scratch}/weights/release", f"{scratch}/saved", form)
    pathlib.Path(scratch, "saved", form, "latest_checkpointed_iteration.txt").write_text("7")


def check_by_buckets(bin, name, dtype, form, layout):
    with tempfile.TemporaryDirectory() as scratch:
        save_by_buckets(bin, scratch, MODELS[name], name, dtype, form, layout)
        run(f"{bin}/mt-convert", "--quiet", "--verify", "--with-optimizer", f"{scratch}/saved/{form}", f"{scratch}/core")
        return check_moments(f"{scratch}/core/iter_0000007")


# For the tests: the model, the layout, its type, and whether its optimizer is distributed.
GOLDENS = {
    "gpt2": (T.GPT2Config(vocab_size=61, n_positions=8, n_embd=8, n_layer=2, n_head=2), Layout(2, 2), torch.bfloat16,
             True),
    "mixtral": (T.MixtralConfig(vocab_size=61, hidden_size=16, num_attention_heads=8, num_key_value_heads=8,
                                num_hidden_layers=4, intermediate_size=8, num_local_experts=4, max_position_embeddings=8),
                Layout(1, 2, 1, 2), torch.bfloat16, True),
    "mixtral gemm": (T.MixtralConfig(vocab_size=13, hidden_size=8, num_attention_heads=2, num_key_value_heads=2,
                                     num_hidden_layers=1, intermediate_size=4, num_local_experts=4,
                                     max_position_embeddings=8), Layout(2, 1, 1, 2), torch.bfloat16, True),
    "t5": (T.T5Config(vocab_size=61, d_model=16, d_kv=4, d_ff=8, num_layers=1, num_decoder_layers=2, num_heads=2,
                      relative_attention_num_buckets=4), Layout(1), torch.float32, False),
    "t5 stages": (T.T5Config(vocab_size=13, d_model=16, d_kv=4, d_ff=8, num_layers=2, num_decoder_layers=2, num_heads=2,
                             relative_attention_num_buckets=4), Layout(1, 2, encoder=2), torch.float32, False),
    "hybrid": (T.NemotronHConfig(vocab_size=61, hidden_size=16, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
                                 intermediate_size=16, ssm_state_size=4, n_groups=2, mamba_num_heads=4, mamba_head_dim=8,
                                 max_position_embeddings=8,
                                 layers_block_type=["linear_attention", "full_attention", "mlp", "linear_attention"]),
               Layout(2), torch.float32, False),
    **{form: (T.LlamaConfig(vocab_size=61, max_position_embeddings=8, tie_word_embeddings=True, num_hidden_layers=2,
                            num_attention_heads=2, hidden_size=8, intermediate_size=12), Layout(2, 2, dp=2), torch.bfloat16,
              form) for form in BUCKET_FORMS},
}


def write_golden(bin, folder, name):
    config, layout, dtype, distributed = GOLDENS[name]
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(distributed, str):
            save_by_buckets(bin, scratch, config, "llama", dtype, distributed, layout, "--make-vocab-size-divisible-by", "8")
            shutil.copytree(f"{scratch}/saved/{distributed}", folder)
            return
        draw(config, dtype, f"{scratch}/hf")
        run(f"{bin}/mt-convert", "--quiet", "--make-vocab-size-divisible-by", "8", *layout_flags(name, layout),
            f"{scratch}/hf", f"{scratch}/weights")
        spawn(name, layout, f"{scratch}/weights/release", f"{scratch}/saved", distributed)
        shutil.copytree(f"{scratch}/saved/torch", folder)
    pathlib.Path(folder, "latest_checkpointed_iteration.txt").write_text("7")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}; default all")
    parser.add_argument("-j", metavar="N", type=int, default=os.cpu_count(), help="cases at a time; default the cores")
    parser.add_argument("--golden", metavar="FOLDER")
    parser.add_argument("--later", metavar="FOLDER", help="holds megatron-core 0.16.1, which writes dp_reshardable")
    options = parser.parse_intermixed_args()
    os.environ["LATER_CORE"] = options.later or ""
    if options.golden:
        for name in options.models if options.models != list(MODELS) else ["gpt2"]:
            write_golden(options.bin, options.golden, name)
        return
    kinds = {"bert": BERT_LAYOUTS, "hybrid": ONE_CHUNK_LAYOUTS, "mixtral": EXPERT_LAYOUTS, "t5": t5_layouts(3, 2, 2),
             "t5 1.1": t5_layouts(2, 3, 1)}
    cases = []
    for name in options.models:
        layouts = kinds.get(name) or kinds.get(name.split(" ")[0], LAYOUTS)
        optimizers = list(itertools.product((torch.float32, torch.bfloat16), (False, True)))
        cases += [(name, *optimizers[i % len(optimizers)], *layouts[i % len(layouts)])
                  for i in range(max(len(optimizers), len(layouts)))]
    torch.multiprocessing.set_forkserver_preload(["torch.distributed.checkpoint", "transformers"])  # by ranks, once
    total = 0
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        counts = pool.map(lambda case: check(options.bin, *case), cases)
        for (name, dtype, distributed, first, second), count in zip(cases, counts):
            print(f"{name}, {str(dtype)[6:]}{', distributed optimizer' if distributed else ''}: ranks {first} to {second}, "
                  f"{count} moments", flush=True)
            total += count
        forms = [form for form in BUCKET_FORMS if form != "dp_reshardable" or options.later]
        buckets = [(name, dtype, form, layout) for form in forms for name in options.models
                   for layout, dtype in zip(BUCKET_LAYOUTS.get(name, ()), (torch.bfloat16, torch.float32))]
        counts = pool.map(lambda case: check_by_buckets(options.bin, *case), buckets)
        for (name, dtype, form, layout), count in zip(buckets, counts):
            print(f"{name}, {str(dtype)[6:]}, {form}: ranks {layout}, {count} moments", flush=True)
            total += count
    print(f"{len(cases) + len(buckets)} cases, {total} moments")


if __name__ == "__main__":
    main()
