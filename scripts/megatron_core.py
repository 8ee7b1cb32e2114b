"""Megatron-Core 0.12.1 on a machine without a GPU, and its models as a checkpoint's `args` describe them.

Megatron-Core asks for a GPU by name only; here a torch function mode gives it the CPU instead, and its fused
layer norm (needed for --apply-layernorm-1p) is PyTorch's.  What it cannot do without Apex or Transformer
Engine when it resumes, make_state does; nothing else of it is replaced.

Needs from PyPI: megatron-core 0.12.1, torch (tried with 2.15.0), numpy, psutil.
"""
import dataclasses
import os
import types
import warnings

os.environ["MT_DEVICE"] = "cpu"
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # Megatron-Core compiles small functions: minutes for nothing
warnings.filterwarnings("ignore")
import numpy  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

numpy.product = numpy.prod  # gone from numpy 2, which Megatron-Core 0.12.1 does not know


class CpuForCuda(TorchFunctionMode):
    """What is asked for on `cuda` is made on the CPU, and says that it is CUDA's where its type is looked at."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if str(kwargs.get("device")).startswith("cuda"):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        result = function(*args, **kwargs)
        if function is torch.Tensor.type and isinstance(result, str):
            return result.replace("torch.", "torch.cuda.")
        return result


class LayerNormOfTorch:
    """Stands in for Apex's FusedLayerNormAffineFunction, which FusedLayerNorm calls and looks at."""

    @staticmethod
    def forward(x, weight, bias, shape, eps):
        return F.layer_norm(x, shape, weight, bias, eps)

    apply = forward


def replaced(value, **changes):
    """dataclasses.replace() with what Megatron-Core adds to a checkpoint's metadata, which newer PyTorch so copies."""
    copy = dataclasses.replace(value, **changes)
    vars(copy).update({name: added for name, added in vars(value).items() if name not in vars(copy)})
    return copy


def take_widths(attention):
    """Lets the local attention have values of another width than keys, as Transformer Engine's has."""
    of_one_width = attention.__init__

    def made(self, *args, k_channels=None, v_channels=None, **more):
        of_one_width(self, *args, **more)
        if v_channels is not None:
            self.hidden_size_per_partition = self.num_attention_heads_per_partition * v_channels

    attention.__init__ = made


def import_megatron(version="0.12.1"):
    """Imports Megatron-Core with the CPU in CUDA's place."""
    CpuForCuda().__enter__()
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.device_count = lambda: 1
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.manual_seed = lambda seed: None
    torch.cuda.get_rng_state = torch.get_rng_state
    import megatron.core
    from torch.distributed.checkpoint import filesystem
    from megatron.core.fusions import fused_layer_norm
    from megatron.core.models.gpt import gpt_layer_specs
    from megatron.core.optimizer import distrib_optimizer
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import dot_product_attention

    assert megatron.core.__version__ == version, megatron.core.__version__
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
    # An argument that newer PyTorch has added and Megatron-Core 0.12.1 does not give.
    filesystem._write_item.__defaults__ = (filesystem.SerializationFormat.TORCH_SAVE,)
    filesystem.dataclasses = types.SimpleNamespace(**vars(dataclasses) | {"replace": replaced})
    distrib_optimizer.quantize_param_shard = lambda *_: None  # asks for Transformer Engine even without FP8
    fused_layer_norm.HAVE_FUSED_LAYER_NORM = True
    fused_layer_norm.FusedLayerNormAffineFunction = LayerNormOfTorch
    gpt_layer_specs.LNImpl = fused_layer_norm.FusedLayerNorm
    take_widths(dot_product_attention.DotProductAttention)
    return megatron.core


def transformer_config(core, args):
    """The rules of Megatron-LM's core_transformer_config_from_args, over a checkpoint's `args`."""
    from megatron.core.fusions.fused_layer_norm import FusedLayerNorm
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig, transformer_block

    kind = MLATransformerConfig if getattr(args, "multi_latent_attention", False) else TransformerConfig
    known = {field.name for field in dataclasses.fields(kind)}
    values = {name: value for name, value in vars(args).items() if name in known}
    values.update(layernorm_epsilon=args.norm_epsilon, layernorm_zero_centered_gamma=args.apply_layernorm_1p,
                  persist_layer_norm=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
                  use_cpu_initialization=True, num_query_groups=None)
    if getattr(args, "num_experts", None):
        values.update(num_moe_experts=args.num_experts, moe_token_dispatcher_type="allgather")
        for name in ("moe_router_load_balancing_type", "moe_aux_loss_coeff", "moe_z_loss_coeff", "moe_router_pre_softmax",
                     "moe_router_score_function", "moe_router_num_groups", "moe_router_group_topk",
                     "moe_router_topk_scaling_factor", "moe_shared_expert_intermediate_size"):
            if hasattr(args, name):  # what has its default may be left out
                values[name] = getattr(args, name)
    if getattr(args, "mtp_num_layers", None):  # whose factor may be left out, too
        values.setdefault("mtp_loss_scaling_factor", 0.1)
    if args.group_query_attention:
        values["num_query_groups"] = args.num_query_groups
    if args.swiglu:
        values.update(activation_func=F.silu, gated_linear_unit=True, bias_activation_fusion=False)
    else:
        values["bias_activation_fusion"] = args.bias_gelu_fusion
    if args.squared_relu:
        values["activation_func"] = lambda x: torch.pow(F.relu(x), 2)
    if args.apply_layernorm_1p:  # which PyTorch's norm, the other choice without Apex, does not know
        transformer_block.LayerNormImpl = FusedLayerNorm
    capacity = values.pop("moe_expert_capacity_factor", None)
    if kind is MLATransformerConfig:  # whose own default is a rank of queries
        values["q_lora_rank"] = getattr(args, "q_lora_rank", None)
    config = kind(**values)
    config.moe_expert_capacity_factor = capacity  # which it knows without a GPU, too, but refuses
    return config


def make_gpt(config, args):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import (get_gpt_decoder_block_spec, get_gpt_layer_local_spec,
                                                          get_gpt_mtp_block_spec)
    from megatron.core.transformer import transformer_block

    spec = of_experts = get_gpt_layer_local_spec(config.num_moe_experts, qk_layernorm=config.qk_layernorm,
                                                 normalization=args.normalization,
                                                 multi_latent_attention=config.multi_latent_attention)
    if config.num_moe_experts and config.moe_layer_freq != 1:
        spec = get_gpt_decoder_block_spec(config, False, normalization=args.normalization)
        spec.layer_norm = transformer_block.LayerNormImpl
        of_experts = next(s for s in spec.layer_specs if "experts" in str(s.submodules.mlp.submodules))
    if config.num_moe_experts:  # else the norm is called by another name than in Transformer Engine's spec
        of_experts.submodules.sharded_state_dict_keys_map.pop("pre_mlp_layernorm.", None)
        if getattr(args, "moe_shared_expert_gate", False):  # of which 0.12.1 has no setting
            of_experts.submodules.mlp.submodules.shared_experts.params["gate"] = True
    if config.multi_latent_attention:  # Transformer Engine's spec fuses norms with what reads them
        for layer in getattr(spec, "layer_specs", [spec]):
            keys = layer.submodules.sharded_state_dict_keys_map
            for norm, linear in (("q_layernorm", "linear_q_up_proj"), ("kv_layernorm", "linear_kv_up_proj")):
                keys[f"self_attention.{norm}."] = f"self_attention.{linear}.layer_norm_"
            if "experts" not in str(layer.submodules.mlp.submodules):
                keys["pre_mlp_layernorm."] = "mlp.linear_fc1.layer_norm_"
    further = get_gpt_mtp_block_spec(config, spec, False) if getattr(args, "mtp_num_layers", None) else None
    return GPTModel(config, spec, args.padded_vocab_size, args.max_position_embeddings, mtp_block_spec=further,
                     share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                     position_embedding_type=args.position_embedding_type, rotary_percent=args.rotary_percent,
                     rotary_base=args.rotary_base, rope_scaling=args.use_rope_scaling,
                     rope_scaling_factor=args.rope_scaling_factor,
                     seq_len_interpolation_factor=args.rotary_seq_len_interpolation_factor)


def make_bert(config, args):
    from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
    from megatron.core.models.bert.bert_model import BertModel

    return BertModel(config, 2 if args.bert_binary_head else 0, bert_layer_local_spec, args.padded_vocab_size,
                     args.max_position_embeddings, add_binary_head=args.bert_binary_head,
                     share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                     position_embedding_type=args.position_embedding_type)


def make_t5(config, args):
    from megatron.core.models.T5 import t5_spec
    from megatron.core.models.T5.t5_model import T5Model
    from megatron.core.transformer.torch_norm import WrappedTorchNorm

    t5_spec.TENorm = WrappedTorchNorm  # which the local specification asks for
    return T5Model(dataclasses.replace(config, num_layers=args.num_layers),
                   dataclasses.replace(config, num_layers=args.encoder_num_layers),
                   t5_spec.get_t5_encoder_with_local_block_spec(args.encoder_num_layers),
                   t5_spec.get_t5_decoder_with_local_block_spec(args.num_layers), args.padded_vocab_size,
                   args.max_position_embeddings,
                   share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                   position_embedding_type=args.position_embedding_type)


def make_state(optimizer, steps):
    """State to load into, of so many steps: Megatron-Core fails to make SGD's, and without Apex the distributed optimizer's."""
    for chained in optimizer.chained_optimizers:
        for group in chained.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        chained.optimizer.step()
        chained.init_state_fn = lambda *_: None
        if hasattr(chained, "_set_main_param_and_optimizer_states"):  # looks for a step beside the moments
            of_apex = chained._set_main_param_and_optimizer_states
            chained._set_main_param_and_optimizer_states = lambda parameter, tensors, of_apex=of_apex: of_apex(
                parameter, {**tensors, "step": torch.tensor(float(steps))})
