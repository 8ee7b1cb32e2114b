"""What compare-ranks.py gives to Megatron-Core's ranks: tiny models, layouts, and what a rank does with them."""
import argparse
import importlib
import inspect
import os
import subprocess
import sys
import tempfile
import threading
import types
import typing

import megatron_releases as releases

import megatron_core
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
    stages: str = ""  # what each holds, for --pipeline-model-parallel-layout

    def ranks(self):
        return self.tp * (self.pp + self.encoder) * self.ep * self.dp

    def __str__(self):
        return str(tuple(self))


class Sharding(typing.NamedTuple):
    """How a torch_dist checkpoint has the distributed optimizer's state."""
    form: str
    release: str  # of Megatron-Core
    size: typing.Optional[int] = None  # elements that fill a bucket

    def options(self):
        """What Megatron-LM asks for it with, of the state and of what is saved."""
        if releases.minor(self.release) < 13:
            return {"sharding_type": self.form}, {}
        metadata = {"distrib_optim_sharding_type": self.form, "singleton_local_shards": False, "chained_optim_avoid_prefix": True}
        return {"metadata": metadata}, {"content_metadata": metadata}


def formats_of(name, layout, distributed):
    """Those that Megatron-LM writes; the last one of a rank alone.  Grouped experts differ in the torch format only.  Where a
    T5's encoder has stages of its own, each stage has positions of its own, of which torch_dist takes none."""
    if name.startswith("mixtral ") or layout.encoder:
        return ("torch",)
    alone = layout == Layout(1) and not distributed
    return ("torch", "torch_dist", "torch_dcp") if alone else ("torch", "torch_dist")


FACTORS = {"exp_avg": 2, "exp_avg_sq": 3}
STEP = 1
SCALER = {"scale": torch.tensor([4096.0]), "growth_tracker": 5, "hysteresis_tracker": 2}
PADDED = "fully_sharded_bucket_space"


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")


def known(function, **options):
    """Those that the release's function takes."""
    return {name: value for name, value in options.items() if name in inspect.signature(function).parameters}


def gpt_model(core, args, experts="", **stage):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    config = megatron_core.transformer_config(core, args)
    config.sequence_parallel = False  # for which it has no norm of PyTorch's
    spec = get_gpt_layer_local_spec(args.num_moe_experts, **known(get_gpt_layer_local_spec, normalization=args.normalization))
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
            self.count = count
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

        def sharded_state_dict(self, prefix="", sharded_offsets=(), metadata=None):
            from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint

            first, every = (number() * self.count for number in (state.get_expert_model_parallel_rank,
                                                                 state.get_expert_model_parallel_world_size))
            found = {}
            for i in range(self.count):
                weight, = make_sharded_tensors_for_checkpoint(
                    {"weight": getattr(self, f"weight{i}")}, prefix, {"weight": self.cut},
                    (*sharded_offsets, (len(sharded_offsets), first + i, every))).values()
                weight.replica_id = (*weight.replica_id[:2], state.get_expert_data_parallel_rank())
                found[f"{prefix}weight{i}"] = weight
            return found

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


def wrap(core, model, args, chunk, bucket):
    """As Megatron-LM's get_model() does."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.enums import ModelType

    state = core.parallel_state
    model.model_type = ModelType.encoder_or_decoder
    sharded = DistributedDataParallelConfig(use_distributed_optimizer=args.use_distributed_optimizer,
                                            grad_reduce_in_fp32=args.params_dtype == torch.bfloat16,
                                            overlap_grad_reduce=bucket is not None, bucket_size=bucket)
    groups = {}
    if "data_parallel_group" in inspect.signature(DistributedDataParallel).parameters:  # 0.7.0
        groups = dict(data_parallel_group=state.get_data_parallel_group(with_context_parallel=True),
                      expert_data_parallel_group=state.get_data_modulo_expert_parallel_group())
    return DistributedDataParallel(model.config, sharded, model.to(args.params_dtype), disable_bucketing=chunk > 0, **groups)


def make_models(core, name, args, layout, bucket=None):
    families = importlib.import_module("compare-convert-families")
    make = {"bert": families.bert_model, "hybrid": families.mamba_model}.get(name, gpt_model)
    state = core.parallel_state
    args.pipeline_dtype = args.params_dtype
    args.virtual_pipeline_model_parallel_size = layout.vp if layout.vp > 1 else None
    args.num_moe_experts = getattr(args, "num_experts", None)
    args.sequence_parallel = layout.ep > 1 and layout.tp > 1  # which it asks for
    models = []
    for chunk in range(layout.vp):
        if layout.vp > 1:
            state.set_virtual_pipeline_model_parallel_rank(chunk)
        if name.startswith("t5"):
            model = families.t5_model(core, args, **t5_stage(core, layout))
        else:
            experts = {"experts": name.split(" ")[1]} if name.startswith("mixtral ") else {}
            place = dict(ignore_virtual=False, **known(state.is_pipeline_first_stage, vp_stage=chunk))
            model = make(core, args, **experts, pre_process=state.is_pipeline_first_stage(**place),
                         post_process=state.is_pipeline_last_stage(**place),
                         **({"vp_stage": chunk} if "vp_stage" in place and make is gpt_model else {}))
        models.append(wrap(core, model, args, chunk, bucket))
    return models


def parts(optimizer):
    return getattr(optimizer, "chained_optimizers", [optimizer])


def make_optimizer(core, models, args):
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=0.01, min_lr=0.001, weight_decay=0.1, params_dtype=args.params_dtype,
                        bf16=args.params_dtype == torch.bfloat16, fp16=args.params_dtype == torch.float16,
                        use_distributed_optimizer=args.use_distributed_optimizer), models)
    for part in parts(optimizer):
        part.reload_model_params()
    before = [p.clone() for group in optimizer.param_groups for p in group["params"]]
    megatron_core.make_state(types.SimpleNamespace(chained_optimizers=parts(optimizer)), 5)
    for p, old in zip((p for group in optimizer.param_groups for p in group["params"]), before):
        p.data.copy_(old)  # decay has changed it
    return optimizer


def moments(optimizer):
    """(fp32 parameter or part of it, its state) of all."""
    for part in parts(optimizer):
        inner = part.optimizer
        for group in inner.param_groups:
            for parameter in group["params"]:
                yield parameter, inner.state[parameter]


def load_dist(core, folder, models, keys, optimizer, **of_state):
    """What Megatron-LM's load_checkpoint() does with torch_dist."""
    weights = {key: model.module.sharded_state_dict() for key, model in zip(keys, models)}
    found = core.dist_checkpointing.load(
        {**weights, "optimizer": optimizer.sharded_state_dict(weights, is_loading=True, **of_state)}, folder)
    optimizer.load_state_dict(found["optimizer"])


def as_fused(optimizer):
    """What Apex's and Transformer Engine's Adam keeps: a group's step, none for each parameter."""
    from megatron.core.optimizer import distrib_optimizer

    distrib_optimizer.HAVE_APEX_OR_TE = True
    for part in parts(optimizer):
        for state in part.optimizer.state.values():
            state.pop("step", None)
        for group in part.optimizer.param_groups:
            group["step"] = STEP


def save_dist(core, folder, models, keys, optimizer, common, of_state=None, of_save=None):
    state = {key: model.module.sharded_state_dict() for key, model in zip(keys, models)}
    state["optimizer"] = optimizer.sharded_state_dict(state, **of_state or {})
    if torch.distributed.get_rank() == 0:
        os.makedirs(folder)
    torch.distributed.barrier()
    core.dist_checkpointing.save({**common, **state}, folder, **of_save or {})


def rank_main(rank, name, layout, folder, saved, distributed, work):
    """Loads the weights from FOLDER and saves with an optimizer to SAVED/FORMAT; without SAVED the optimizer is loaded.
    With a Sharding in DISTRIBUTED, the distributed optimizer's state is saved in its form, to SAVED/FORM."""
    sharding = distributed if isinstance(distributed, Sharding) else None
    release = sharding.release if sharding else releases.INSTALLED
    core = releases.start(release)
    torch.set_num_threads(1)
    tp, pp, vp, ep, encoder, dp, _ = layout
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
    args.data_parallel_size = dp * ep
    if releases.minor(release) >= 10:
        args.expert_tensor_parallel_size = tp
    args.moe_grouped_gemm = name in ("mixtral grouped", "mixtral gemm")
    if sharding and sharding.size:
        args.overlap_grad_reduce, args.ddp_bucket_size = True, sharding.size
    models = make_models(core, name, args, layout, sharding and sharding.size)
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
        for part in parts(optimizer):
            if getattr(part, "grad_scaler", None):
                part.grad_scaler.load_state_dict(SCALER)
        if sharding:
            common = {key: value for key, value in state.items() if key not in keys} | {"iteration": 7}
            if sharding.form == PADDED:
                as_fused(optimizer)
            save_dist(core, f"{saved}/{sharding.form}/iter_0000007", models, keys, optimizer, common, *sharding.options())
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
        for form in formats_of(name, layout, distributed) if not sharding else ("torch_dist",):
            for parameter, kept in moments(optimizer):
                for moment in FACTORS:
                    kept[moment].fill_(-1)
                if parameter.data_ptr() not in own:
                    parameter.data.fill_(-1)
            with torch.no_grad():
                if form == "torch_dist":
                    load_dist(core, f"{folder}/{form}/iter_0000007", models, keys, optimizer,
                              **sharding.options()[0] if sharding else {})
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
    if layout.stages:
        return flags + ["--pipeline-model-parallel-layout", layout.stages]
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
            names = (f"{master}{key[len(prefix):]}" for master in ("optimizer.state.fp32_param.", "optimizer.state.param.", ""))
            fp32 = next(state[name] for name in names if name in state)
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


