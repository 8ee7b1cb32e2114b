#!/usr/bin/env python3
"""Trains twenty steps from one of mt-pretrain's checkpoints with Megatron-Core, and compares.

For each case below mt-preprocess makes token files of testdata's stories, and mt-pretrain trains 25 steps in
fp32 with a checkpoint after the fifth.  Megatron-Core reads that checkpoint (model settings, weights,
optimizer, schedule) with its own reader, builds its GPTModel, BertModel or T5Model of the local spec and the
dataset that goes with it over the same token files, and trains the other twenty steps with its own data-parallel
wrapper, gradient reduction, clipping, optimizer and schedule, on as many gloo ranks.  Losses must be equal to
1e-5, gradient norms to 1e-4, learning rates to 1e-15.

Megatron-Core asks for a GPU by name only; here a torch function mode gives it the CPU instead, and its fused
layer norm (needed for --apply-layernorm-1p) is PyTorch's.  What it cannot do without Apex or Transformer
Engine when it resumes, make_state does; nothing else of it is replaced.

Needs from PyPI: megatron-core 0.12.1, torch (tried with 2.15.0), numpy, psutil.

Run:  scripts/compare-megatron.py build/release/cmd [CASE ...]
"""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
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
FIRST, STEPS = 5, 20
TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"

# The learning rate is one at which no step's gradient hangs on rounding.  At 3e-3 one does: for GPT-2 at step 13 a
# norm of 7.9706 in fp64, which either side's fp32 misses by 8e-4, in opposite directions.
COMMON = """--hidden-size 48 --num-attention-heads 4 --seq-length 40 --max-position-embeddings 40
  --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine
  --lr-warmup-fraction 0.12
  --weight-decay 0.1 --adam-beta2 0.95 --clip-grad 0.5 --hidden-dropout 0 --attention-dropout 0
  --split 90,5,5 --eval-iters 0 --threads 2
  --make-vocab-size-divisible-by 4"""  # no padding of 380 tokens: Megatron's losses are over its rows, too
LLAMA = """--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
  --untie-embeddings-and-output-weights"""
LATENT = LLAMA + """ --multi-latent-attention --qk-layernorm --kv-lora-rank 11 --qk-head-dim 6 --qk-pos-emb-head-dim 4
  --v-head-dim 8"""
BERT = "--model-type bert --make-vocab-size-divisible-by 1"
T5 = """--model-type t5 --encoder-num-layers 2 --decoder-num-layers 3 --decoder-seq-length 24 --vocab-extra-ids 100
  --make-vocab-size-divisible-by 1"""
CASES = {
    "gpt2": "",
    "gpt2-2-ranks": "--ranks 2",
    "gpt2-erf": "--no-bias-gelu-fusion --lr-decay-style linear --clip-grad 0",
    "llama": LLAMA,
    "llama-2-ranks": LLAMA + " --ranks 2",
    "gqa-wide-heads": LLAMA + " --group-query-attention --num-query-groups 2 --kv-channels 16 --add-qkv-bias",
    "rope-part": LLAMA + " --rotary-percent 0.5 --rotary-base 500 --lr-decay-style constant",
    "rope-interleaved": LLAMA + " --rotary-interleaved --rotary-percent 0.5",
    "rope-scaled": LLAMA + " --use-rope-scaling --rope-scaling-factor 4 --rotary-base 500000",
    "rope-interpolated": LLAMA + " --rotary-seq-len-interpolation-factor 4",
    "qk-layernorm": LLAMA + " --qk-layernorm --group-query-attention --num-query-groups 2",
    "layernorm-1p": "--apply-layernorm-1p --qk-layernorm",
    "squared-relu": "--squared-relu --disable-bias-linear --add-qkv-bias",
    "label-smoothing": "--label-smoothing 0.1",
    "documents": "--reset-position-ids --reset-attention-mask --eod-mask-loss --ranks 2",
    "ramp-up": "--train-samples 160 --rampup-batch-size 2 2 48",
    "sgd": "--optimizer sgd --lr 0.1 --decoupled-lr 0.05 --decoupled-min-lr 0.01",
    "wsd": "--lr-decay-style WSD --lr-wsd-decay-iters 15 --start-weight-decay 0 --end-weight-decay 0.1 "
           "--weight-decay-incr-style cosine",
    "inverse-square-root": LLAMA + " --lr-decay-style inverse-square-root --start-weight-decay 0.01 "
                           "--end-weight-decay 0.1 --weight-decay-incr-style linear",
    "distributed-optimizer": "--use-distributed-optimizer --ranks 2",
    "distributed-optimizer-gated": LLAMA + " --use-distributed-optimizer --ranks 2",
    "per-token-loss": "--calculate-per-token-loss --eod-mask-loss --ranks 2",
    "experts": LLAMA + " --num-experts 5",
    "experts-2-ranks": LLAMA + " --num-experts 4 --moe-router-topk 3 --ranks 2",
    "experts-losses": LLAMA + " --num-experts 5 --moe-aux-loss-coeff 0.3 --moe-z-loss-coeff 0.05",
    "experts-sequences": LLAMA + " --num-experts 5 --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.3",
    # Without this seed two groups have the same sum in the eighth step, to the last bit of f32, and PyTorch takes another.
    "experts-sigmoids": LLAMA + " --num-experts 6 --moe-router-score-function sigmoid --moe-router-num-groups 3"
                                " --moe-router-group-topk 2 --moe-router-topk-scaling-factor 1.5 --moe-aux-loss-coeff 0.3 --seed 7",
    "experts-shared": LLAMA + " --num-experts 4 --moe-shared-expert-intermediate-size 24",
    "experts-shared-gate": LLAMA + " --num-experts 4 --moe-shared-expert-intermediate-size 24 --moe-shared-expert-gate"
                                   " --ranks 2",
    "experts-every-second": LLAMA + " --num-experts 4 --moe-layer-freq 2 --moe-ffn-hidden-size 28",
    "experts-behind-dense": LLAMA + " --num-experts 4 --moe-layer-freq [0]*1+[1]*2 --use-distributed-optimizer --ranks 2",
    # With seed 7 the last token that an expert keeps and the first that it drops have weights 1.9e-9 apart in the 17th of these
    # steps, less than a rounding: that step's losses are 2.1e-5 apart, all others 2.4e-7 at most.
    "experts-capacity": LLAMA + " --num-experts 4 --moe-expert-capacity-factor 0.75 --moe-aux-loss-coeff 0.3 --ranks 2"
                                " --seed 11",
    "experts-softmax-of-all": LLAMA + " --num-experts 4 --moe-router-pre-softmax --ranks 2",
    "latent": LATENT + " --q-lora-rank 13",
    "latent-2-ranks": LATENT + " --q-lora-rank 13 --rotary-scaling-factor 4 --mscale 0.7 --mscale-all-dim 0.7 --ranks 2"
                               " --use-distributed-optimizer",
    "latent-without-norms": LATENT.replace(" --qk-layernorm", "") + " --v-head-dim 24",
    "latent-experts": LATENT + " --num-experts 4 --moe-router-pre-softmax --moe-layer-freq [0]*1+[1]*2"
                               " --moe-shared-expert-intermediate-size 24",
    "further-tokens": LLAMA + " --mtp-num-layers 2 --mtp-loss-scaling-factor 0.3",
    "further-tokens-2-ranks": LLAMA.replace(" --untie-embeddings-and-output-weights", "") + " --mtp-num-layers 1 --ranks 2"
                              " --use-distributed-optimizer",
    "further-tokens-latent-experts": LATENT + " --num-experts 4 --moe-router-pre-softmax --moe-layer-freq [0]*1+[1]*2"
                                     " --mtp-num-layers 1",
    "bert": BERT,
    "bert-2-ranks": BERT + " --ranks 2",
    "bert-distributed-optimizer": BERT + " --use-distributed-optimizer --ranks 2 --mask-prob 0.3",
    "bert-no-binary-head": BERT + " --bert-no-binary-head --short-seq-prob 0.5",
    "bert-swiglu": BERT + " --swiglu --disable-bias-linear --group-query-attention --num-query-groups 2",
    "bert-untied": BERT + " --untie-embeddings-and-output-weights",
    "t5": T5,
    "t5-2-ranks": T5 + " --ranks 2 --no-bias-gelu-fusion",
    "t5-distributed-optimizer": T5 + " --use-distributed-optimizer --ranks 2",
    "t5-rope": T5 + " --position-embedding-type rope --kv-channels 16",
    "t5-untied": T5 + " --untie-embeddings-and-output-weights --mask-prob 0.3",
    "recompute": "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
}


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


def make_model(core, config, args, option):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads

    model = {"gpt": make_gpt, "bert": make_bert, "t5": make_t5}[option("model-type")](config, args)
    model.model_type = core.enums.ModelType.encoder_or_decoder
    sharded = DistributedDataParallelConfig(use_distributed_optimizer=option("use-distributed-optimizer"))
    wrapped = DistributedDataParallel(config, sharded, model)
    config.no_sync_func, config.finalize_model_grads_func = wrapped.no_sync, finalize_model_grads
    return wrapped


def make_optimizer(model, options):
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    option = options.__getitem__
    names = {field.name for field in dataclasses.fields(OptimizerConfig)} & {n.replace("-", "_") for n in options}
    names = {name for name in names if not name.endswith("_dtype")}  # of moments, which are in fp32
    optimizer = get_megatron_optimizer(
        OptimizerConfig(params_dtype=torch.float32, **{name: option(name.replace("_", "-")) for name in names}), [model])
    batch = option("global-batch-size")
    total = option("train-samples") or option("train-iters") * batch
    decaying = option("lr-wsd-decay-iters")
    start, end = (option(f"{place}-weight-decay") for place in ("start", "end"))
    if option("weight-decay-incr-style") == "constant":
        start = end = option("weight-decay")
    schedule = OptimizerParamScheduler(
        optimizer, init_lr=option("lr-warmup-init"), max_lr=option("lr"), min_lr=option("min-lr"),
        lr_warmup_steps=option("lr-warmup-fraction") * total, lr_decay_steps=total,
        lr_decay_style=option("lr-decay-style"), start_wd=start, end_wd=end, wd_incr_steps=total,
        wd_incr_style=option("weight-decay-incr-style"), wsd_decay_steps=decaying and decaying * batch,
        lr_wsd_decay_style=option("lr-wsd-decay-style"), use_checkpoint_opt_param_scheduler=False)
    return optimizer, schedule


def make_state(optimizer):
    """State to load into: Megatron-Core fails to make SGD's, and without Apex the distributed optimizer's."""
    for chained in optimizer.chained_optimizers:
        for group in chained.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        chained.optimizer.step()
        chained.init_state_fn = lambda *_: None
        if hasattr(chained, "_set_main_param_and_optimizer_states"):  # looks for a step beside the moments
            of_apex = chained._set_main_param_and_optimizer_states
            chained._set_main_param_and_optimizer_states = lambda parameter, tensors, of_apex=of_apex: of_apex(
                parameter, {**tensors, "step": torch.tensor(float(FIRST))})


def load(core, folder, common, model, optimizer, schedule):
    """Weights and optimizer by Megatron-Core's own reader, which refuses what is missing."""
    make_state(optimizer)
    wanted = {"model": model.module.sharded_state_dict()}
    wanted["optimizer"] = optimizer.sharded_state_dict(wanted["model"], is_loading=True)
    found = core.dist_checkpointing.load(wanted, folder)
    model.module.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    for state in optimizer.chained_optimizers[0].optimizer.state.values():
        if torch.is_tensor(state.get("step")):  # SGD, which does not use it, keeps the number that was stored
            state["step"] = state["step"].clone()  # the distributed optimizer gives all parameters the same tensor
    schedule.load_state_dict(common["opt_param_scheduler"])


def make_masked_dataset(option, cache):
    """pretrain_bert.py's and pretrain_t5.py's datasets."""
    from megatron.core.datasets import bert_dataset, t5_dataset
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder

    words = (TESTDATA / "wordpiece/vocab.txt").read_text().splitlines() + ["[BOS]", "[EOS]"]
    first = len(words)
    words += [f"<extra_id_{i}>" for i in range(option("vocab-extra-ids"))]
    named = {name: words.index(f"[{name.upper()}]") for name in ("cls", "sep", "mask", "pad", "bos", "eos")}
    tokenizer = types.SimpleNamespace(
        **named, inv_vocab=dict(enumerate(words)), additional_special_tokens_ids=list(range(first, len(words))),
        unique_identifiers={"tokenizer": "compare-megatron"})
    settings = dict(random_seed=option("seed"), sequence_length=option("seq-length"), blend=(option("data-path"), None),
                    split=option("split"), path_to_cache=cache, tokenizer=tokenizer,
                    masking_probability=option("mask-prob"), short_sequence_probability=option("short-seq-prob"),
                    masking_do_full_word=True, masking_do_permutation=False, masking_use_longer_ngrams=False)
    if option("model-type") == "bert":
        kind = bert_dataset.BERTMaskedWordPieceDataset
        config = bert_dataset.BERTMaskedWordPieceDatasetConfig(
            **settings, masking_max_ngram=3, masking_use_geometric_distribution=False,
            classification_head=not option("bert-no-binary-head"))
    else:
        kind = t5_dataset.T5MaskedWordPieceDataset
        config = t5_dataset.T5MaskedWordPieceDatasetConfig(
            **settings, masking_max_ngram=10, masking_use_geometric_distribution=True,
            sequence_length_decoder=option("decoder-seq-length"))
    samples = [option("train-iters") * option("global-batch-size"), 0, 0]
    return BlendedMegatronDatasetBuilder(kind, samples, lambda: True, config).build()[0]


def make_dataset(core, option, cache):
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    # Token ids are on file: only the end of a document and what a padded label would be are asked for.
    tokenizer = types.SimpleNamespace(eod=option("eod"), unique_identifiers={"tokenizer": "compare-megatron"})
    config = GPTDatasetConfig(random_seed=option("seed"), sequence_length=option("seq-length"),
                              blend=(option("data-path"), None), split=option("split"), path_to_cache=cache,
                              tokenizer=tokenizer, reset_position_ids=option("reset-position-ids"),
                              reset_attention_mask=option("reset-attention-mask"),
                              eod_mask_loss=option("eod-mask-loss"),
                              create_attention_mask=option("reset-attention-mask"))
    samples = [option("train-samples") or option("train-iters") * option("global-batch-size"), 0, 0]
    return BlendedMegatronDatasetBuilder(GPTDataset, samples, lambda: True, config).build()[0]


def micro_batches(dataset, consumed, batch, option, rank):
    """This rank's micro-batches of one step, as Megatron-LM's sampler cuts them."""
    size, ranks = option("micro-batch-size"), option("ranks")
    for first in range(consumed + rank * size, consumed + batch, size * ranks):
        yield torch.utils.data.default_collate([dataset[i] for i in range(first, first + size)])


def loss_of(mask, losses):
    """pretrain_gpt.py's loss_func: summed loss, number of tokens, and both over all ranks to report."""
    total = torch.sum(losses.view(-1) * mask.view(-1))
    tokens = mask.sum().to(torch.int)
    report = torch.stack([total.detach(), tokens.to(torch.float)])
    torch.distributed.all_reduce(report)
    return total, tokens, report


def bert_loss(mask, order, output):
    """pretrain_bert.py's loss_func."""
    losses, classes = output
    words = torch.sum(losses.float().view(-1) * mask.view(-1)) / mask.sum()
    terms = [words]
    if classes is not None:
        terms.append(F.cross_entropy(classes.view(-1, 2).float(), order.view(-1), ignore_index=-1))
    report = torch.stack([term.detach() for term in terms])
    torch.distributed.all_reduce(report)
    return sum(terms), report / torch.distributed.get_world_size()


def forward_bert(batches, model):
    batch = next(batches)
    with_types = {"tokentype_ids": batch["types"]} if model.module.add_binary_head else {}
    output = model(batch["text"], batch["padding_mask"], lm_labels=batch["labels"], **with_types)
    return output, functools.partial(bert_loss, batch["loss_mask"].float(), batch["is_random"])


def forward_t5(batches, model):
    batch = next(batches)
    encoder, decoder = (batch[name] > 0 for name in ("enc_mask", "dec_mask"))
    length = decoder.size(1)

    def hidden(queries, keys):
        return ~(queries[:, None, :, None] & keys[:, None, None, :])

    later = torch.ones(length, length).triu(1).bool()
    losses = model(batch["text_enc"], batch["text_dec"], hidden(encoder, encoder), hidden(decoder, decoder) | later,
                   hidden(decoder, encoder), lm_labels=batch["labels"])
    return losses, functools.partial(loss_of, batch["loss_mask"])


def forward_step(batches, model):
    batch = next(batches)
    losses = model(batch["tokens"], batch["position_ids"], batch.get("attention_mask"), labels=batch["labels"],
                   loss_mask=batch["loss_mask"])
    return losses, functools.partial(loss_of, batch["loss_mask"])


def further_losses(count):
    """The losses of further tokens of so many micro-batches, which Megatron-Core adds up beside the others."""
    from megatron.core.transformer.multi_token_prediction import MTPLossLoggingHelper

    if "values" not in MTPLossLoggingHelper.tracker:
        return []
    values = MTPLossLoggingHelper.tracker.pop("values") / count
    torch.distributed.all_reduce(values)
    return (values / torch.distributed.get_world_size()).tolist()


def train(rank, folder, options, work):
    """One rank of Megatron-Core's run; rank 0 leaves what it saw of each step in WORK/megatron.json."""
    core = import_megatron()
    from megatron.core import num_microbatches_calculator as calculator
    from megatron.core import tensor_parallel
    from megatron.core.pipeline_parallel import get_forward_backward_func

    option = options.__getitem__
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=option("ranks"))
    core.parallel_state.initialize_model_parallel()
    core.tensor_parallel.model_parallel_cuda_manual_seed(option("seed"))
    common = core.dist_checkpointing.load_common_state_dict(folder)
    config = transformer_config(core, common["args"])
    if option("label-smoothing"):  # which the loss function knows, but GPTModel does not ask for
        tensor_parallel.vocab_parallel_cross_entropy = functools.partial(
            tensor_parallel.vocab_parallel_cross_entropy, label_smoothing=option("label-smoothing"))
    model = make_model(core, config, common["args"], option)
    optimizer, schedule = make_optimizer(model, options)
    load(core, folder, common, model, optimizer, schedule)
    kind = option("model-type")
    make = functools.partial(make_dataset, core) if kind == "gpt" else make_masked_dataset
    dataset = make(option, f"{work}/cache")
    calculator.init_num_microbatches_calculator(rank, option("rampup-batch-size") or None, option("global-batch-size"),
                                                option("micro-batch-size"), option("ranks"))
    consumed, steps = common["args"].consumed_train_samples, []
    for iteration in range(FIRST, FIRST + STEPS):
        calculator.update_num_microbatches(consumed)
        batch = calculator.get_current_global_batch_size()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        reports = get_forward_backward_func()(
            forward_step_func={"gpt": forward_step, "bert": forward_bert, "t5": forward_t5}[kind],
            data_iterator=micro_batches(dataset, consumed, batch, option, rank),
            model=[model], num_microbatches=calculator.get_num_microbatches(),
            seq_length=option("seq-length"), micro_batch_size=option("micro-batch-size"))
        learning_rate = next(group["lr"] for group in optimizer.param_groups if not group["is_decoupled_lr"])
        _, norm, _ = optimizer.step()
        schedule.step(increment=batch)
        consumed += batch
        if kind == "bert":  # every micro-batch weighs the same
            terms = (torch.stack(reports).double().mean(0)).tolist()
        else:
            total, tokens = (sum(report[i].item() for report in reports) for i in (0, 1))
            terms = [total / tokens, *further_losses(calculator.get_num_microbatches())]
        steps.append({"iteration": iteration + 1, "losses": terms, "lr": learning_rate, "grad_norm": norm})
    if rank == 0:
        pathlib.Path(work, "megatron.json").write_text(json.dumps(steps))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def run_ours(programs, flags, work):
    """Trains with mt-pretrain; the options it ran with, and its steps after the checkpoint."""
    stories, unit = TESTDATA / "stories" / "stories.jsonl", "document"
    tokenizer = ["--append-eod", "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file",
                 f"{TESTDATA}/gpt2_bpe/vocab.json", "--merge-file", f"{TESTDATA}/gpt2_bpe/merges.txt"]
    if "--model-type" in flags:
        unit = "sentence"
        tokenizer = ["--split-sentences", "--lang", "en", "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file",
                     f"{TESTDATA}/wordpiece/vocab.txt"]
    subprocess.run([f"{programs}/mt-preprocess", "--quiet", "--input", stories,
                    "--output-prefix", f"{work}/stories", *tokenizer], check=True)
    length = [] if "--train-samples" in flags else ["--train-iters", str(FIRST + STEPS)]
    subprocess.run([f"{programs}/mt-pretrain", "--quiet", "--data-path", f"{work}/stories_text_{unit}", "--save",
                    f"{work}/ckpt", "--save-interval", str(FIRST), *length, *flags.split()], check=True)
    lines = [json.loads(line) for line in open(f"{work}/ckpt/run.jsonl")]
    options = {name: value["value"] for name, value in lines[0]["options"].items()}
    options["bert-no-binary-head"] = "--bert-no-binary-head" in flags
    options["eod"] = json.load(open(TESTDATA / "gpt2_bpe/vocab.json"))["<|endoftext|>"]
    steps = [line for line in lines if line["event"] == "step"][FIRST : FIRST + STEPS]
    for step in steps:
        step["losses"] = [step[name] for name in ("loss", "sop_loss", "mtp_1_loss", "mtp_2_loss") if name in step]
    return options, steps


def compare(programs, name):
    with tempfile.TemporaryDirectory() as work:
        layers = "" if "--encoder-num-layers" in CASES[name] else "--num-layers 3"
        options, ours = run_ours(programs, f"{COMMON} {layers} {CASES[name]}", work)
        folder = f"{work}/ckpt/iter_{FIRST:07}"
        torch.multiprocessing.spawn(train, (folder, options, work), options["ranks"])
        theirs = json.loads(pathlib.Path(work, "megatron.json").read_text())
    assert [step["iteration"] for step in ours] == [step["iteration"] for step in theirs]

    def worst(key):
        return max(abs(a[key] - b[key]) for a, b in zip(ours, theirs))

    loss = max(abs(x - y) for a, b in zip(ours, theirs) for x, y in zip(a["losses"], b["losses"], strict=True))
    norm, rate = worst("grad_norm"), worst("lr")
    good = loss <= 1e-5 and norm <= 1e-4 and rate <= 1e-15
    print(f"{name}: loss {ours[0]['loss']:.6f} to {ours[-1]['loss']:.6f}; largest difference of loss {loss:.1e}, "
          f"gradient norm {norm:.1e}, learning rate {rate:.1e}{'' if good else '  NOT EQUAL'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", help="folder of mt-preprocess and mt-pretrain")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default all")
    args = parser.parse_args()
    results = [compare(args.programs, name) for name in args.cases or CASES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
