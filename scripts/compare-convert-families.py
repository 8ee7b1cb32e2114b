#!/usr/bin/env python3
"""Convert tiny random models of families that are more than one stack of equal layers, as compare-convert.py does.

For each model below (of transformers, in float32 and, in several files, in bfloat16):
  - mt-convert makes a torch_dist checkpoint of it, and of that again a folder of Hugging Face's, whose every
    tensor must have the bytes of the original, and which transformers must load with the same settings;
  - of a T5 Megatron-Core's T5Model of the local spec must ask for just the tensors and objects that the checkpoint holds, load
    them, and find the logits of the original, to 1e-5.  Its own attention takes no relative positions without
    Transformer Engine; here they are added to its scores, where Transformer Engine adds them;
  - of a Megatron-BERT Megatron-Core's BertModel must find the logits of words and of sentences, to 1e-5;
  - of a hybrid of Mamba layers Megatron-Core's MambaModel must ask for just what is there, and load it; and, with its distributed
    optimizer, what two ranks of mt-pretrain save of theirs, to moments of the same sums.  It cannot compute without a GPU; the
    kernels that it imports, and Transformer Engine's layers, are classes with the same parameters.

And of plain distributed checkpoints, of a Llama, a GPT-2 and a Megatron-BERT:
  - what torch.distributed.checkpoint.save() makes of the model's state_dict(), bare or below "model", with config.json
    beside it, must come back as the folder of Hugging Face's has it;
  - what mt-convert writes as torch_dcp must load into the state of Megatron-Core's GPTModel of the local spec, key by key,
    and what that saves must be read as the same; torch's own dcp_to_torch_save() must find the nested state.

Needs what compare-convert.py needs, and megatron-core 0.12.1.
Run:  scripts/compare-convert-families.py BIN [MODEL ...]        BIN holds mt-convert and mt-pretrain
      scripts/compare-convert-families.py --keys FOLDER          remakes testdata/model/*.keys
"""
import argparse
import importlib
import os
import sys
import tempfile
import types

import megatron_core
import torch
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.format_utils
import transformers as T

ours = importlib.import_module("compare-convert")
T5 = dict(vocab_size=ours.VOCAB, d_model=64, d_kv=16, d_ff=72, num_layers=2, num_heads=3,
          relative_attention_num_buckets=12, relative_attention_max_distance=20, bos_token_id=3)
HYBRID = dict(vocab_size=ours.VOCAB, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              intermediate_size=72, ssm_state_size=6, n_groups=2, bos_token_id=3, eos_token_id=3,
              layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"])
MODELS = {
    "t5 1.0": T.T5Config(**T5),
    "t5 1.1": T.T5Config(**T5 | dict(d_model=40, num_decoder_layers=3), feed_forward_proj="gated-gelu",
                         tie_word_embeddings=False),
    "t5, tied, not scaled": T.T5Config(**T5 | dict(d_model=40), scale_decoder_outputs=False),
    "t5 with gated silu": T.T5Config(**T5, feed_forward_proj="gated-silu", tie_word_embeddings=False),
    "t5 with gelu": T.T5Config(**T5 | dict(num_decoder_layers=1), feed_forward_proj="gelu"),
    "megatron-bert": ours.MODELS["megatron-bert"],
    "nemotron-h": T.NemotronHConfig(**HYBRID, mamba_num_heads=8, mamba_head_dim=8),
    "nemotron-h, wide": T.NemotronHConfig(**HYBRID, mamba_num_heads=10, mamba_head_dim=8),
}


def build(name, config, dtype):
    torch.manual_seed(1)
    if config.model_type == "megatron-bert":
        return ours.build(config, dtype)
    if config.model_type == "nemotron_h":
        return T.NemotronHForCausalLM(config).to(dtype).eval()
    model = T.T5ForConditionalGeneration(config)
    if name in ("t5 1.1", "t5 with gated silu"):  # whose transformers ties what files do not keep apart
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            deviation = 0.3 / config.d_kv if parameter_name.endswith(".q.weight") else 0.3  # as scores are not divided
            parameter.copy_((parameter.dim() == 1) + torch.randn_like(parameter) * deviation)
    return model.to(dtype).eval()


def t5_model(core, args, **stage):
    """Megatron-Core's T5Model, with an attention that takes relative positions; a stage's as pretrain_t5.py makes it."""
    from megatron.core.models.T5 import t5_model as t5, t5_spec
    from megatron.core.transformer import dot_product_attention, torch_norm, transformer_block

    class Attention(dot_product_attention.DotProductAttention):
        def forward(self, *inputs, attention_bias=None, **others):
            plain = self.scale_mask_softmax.forward
            self.scale_mask_softmax.forward = lambda scores, mask: plain(
                scores if attention_bias is None else scores + attention_bias, mask)
            result = super().forward(*inputs, **others)
            self.scale_mask_softmax.forward = plain
            return result

    config, encoder_config = (megatron_core.transformer_config(core, args) for _ in range(2))
    activation = getattr(args, "activation_func", None)
    for each in (config, encoder_config):
        if activation == "relu":
            each.activation_func = torch.nn.functional.relu
        if getattr(args, "gated_linear_unit", False):
            each.activation_func = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    encoder_config.num_layers = args.encoder_num_layers
    if stage:
        encoder_config.pipeline_model_parallel_size = args.encoder_pipeline_model_parallel_size
    layers = []
    for spec, own in ((t5_spec.encoder_model_with_local_spec(), encoder_config),
                      (t5_spec.decoder_model_with_local_spec(), config)):
        count = own.num_layers // own.pipeline_model_parallel_size
        spec.submodules.self_attention.submodules.core_attention = Attention
        layers.append(transformer_block.TransformerBlockSubmodules([spec] * count, torch_norm.WrappedTorchNorm))
    return t5.T5Model(config, encoder_config, *layers, args.padded_vocab_size, args.max_position_embeddings,
                      parallel_output=False, position_embedding_type=args.position_embedding_type,
                      share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                      relative_attention_num_buckets=args.relative_attention_num_buckets,
                      relative_attention_max_distance=args.relative_attention_max_distance, **stage)


def normed_linear():
    """A linear layer with the parameters of Transformer Engine's that norms first."""
    from megatron.core.tensor_parallel import ColumnParallelLinear
    from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint

    class NormedLinear(ColumnParallelLinear):
        def __init__(self, inputs, *others, config, **options):
            super().__init__(inputs, *others, config=config, **options)
            own = dict(self._parameters)  # behind the norm's, as Transformer Engine has them
            self._parameters.clear()
            self._parameters.update(layer_norm_weight=torch.nn.Parameter(torch.ones(inputs)), **own)

        def sharded_state_dict(self, prefix="", sharded_offsets=(), metadata=None):
            return make_sharded_tensors_for_checkpoint(
                self.state_dict(prefix="", keep_vars=True), prefix, {"weight": 0, "bias": 0}, sharded_offsets)

    return NormedLinear


def mamba_model(core, args, **stage):
    """Megatron-Core's MambaModel: what it imports that a machine without a GPU has not has the parameters alone."""
    from megatron.core.tensor_parallel import RowParallelLinear
    from megatron.core.transformer.torch_norm import WrappedTorchNorm

    class Attention(torch.nn.Module):
        def __init__(self, *_, **__):
            super().__init__()

    class GatedNorm(torch.nn.Module):
        def __init__(self, size, **_):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(size))

    def pretend(name, **members):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)

    pretend("megatron.core.extensions.transformer_engine", TENorm=WrappedTorchNorm, TEDotProductAttention=Attention,
            TEFusedMLP=None, TELayerNormColumnParallelLinear=normed_linear(), TERowParallelLinear=RowParallelLinear)
    kernels = "mamba_ssm.ops.triton."
    for name in ("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.triton"):
        pretend(name)
    pretend(kernels + "selective_state_update", selective_state_update=None)
    pretend(kernels + "layernorm_gated", RMSNorm=GatedNorm)
    pretend(kernels + "ssd_combined", mamba_chunk_scan_combined=None, mamba_split_conv1d_scan_combined=None)
    pretend("causal_conv1d", causal_conv1d_fn=None, causal_conv1d_update=None)
    from megatron.core.models.mamba import MambaModel
    from megatron.core.models.mamba.mamba_layer_specs import mamba_stack_spec

    config = megatron_core.transformer_config(core, args)
    return MambaModel(config, mamba_stack_spec, args.padded_vocab_size, args.max_position_embeddings,
                      hybrid_override_pattern=args.hybrid_override_pattern,
                      share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                      position_embedding_type=args.position_embedding_type, **stage)


def bert_model(core, args, **stage):
    from megatron.core.models.bert import bert_layer_specs
    from megatron.core.models.bert import bert_model as bert

    config = megatron_core.transformer_config(core, args)
    return bert.BertModel(config, 2, bert_layer_specs.bert_layer_local_spec, args.padded_vocab_size,
                          args.max_position_embeddings, add_binary_head=args.bert_binary_head,
                          share_embeddings_and_output_weights=True, parallel_output=False, **stage)


def keys_of(core, wanted):
    """What a model's state asks of a checkpoint."""
    objects = {v.unique_key for v in wanted.values() if isinstance(v, core.dist_checkpointing.mapping.ShardedObject)}
    return objects | {part.key for value in wanted.values() for part in ours.parts_of(core, value)}


def write_keys(rank, folder):
    """What Megatron-Core's models ask of a checkpoint, for the settings of tests/model/convert_support.h."""
    core = start(folder, rank)
    shared = dict(num_layers=3, encoder_num_layers=2, hidden_size=16, num_attention_heads=4, kv_channels=4,
                  ffn_hidden_size=40, padded_vocab_size=128, max_position_embeddings=8, normalization="RMSNorm",
                  norm_epsilon=1e-6, apply_layernorm_1p=False, group_query_attention=False, add_bias_linear=False,
                  swiglu=False, squared_relu=False, bias_gelu_fusion=False, position_embedding_type="relative",
                  relative_attention_num_buckets=6, relative_attention_max_distance=9)
    hybrid = dict(num_layers=5, group_query_attention=True, num_query_groups=2, squared_relu=True,
                  position_embedding_type="none", untie_embeddings_and_output_weights=True, is_hybrid_model=True,
                  hybrid_override_pattern="M*-M*", mamba_head_dim=8, mamba_state_dim=6, mamba_num_groups=2)
    for name, make_model, own in (
            ("t5", t5_model, dict(untie_embeddings_and_output_weights=False)),
            ("t5_gated", t5_model, dict(untie_embeddings_and_output_weights=True, gated_linear_unit=True)),
            ("hybrid", mamba_model, hybrid)):
        model = make_model(core, argparse.Namespace(**shared | own))
        wanted = model.sharded_state_dict()
        tensors = {p.key: p.global_shape for value in wanted.values() for p in ours.parts_of(core, value)}
        objects = {v.unique_key for v in wanted.values() if isinstance(v, core.dist_checkpointing.mapping.ShardedObject)}
        with open(f"{folder}/{name}.keys", "w") as file:
            file.write(f"# What the {name} of tests/model/convert_support.h is to megatron-core {core.__version__}'s {type(model).__name__}: keys\n"
                       "# of tensors with their shapes, keys of objects.  Made by scripts/compare-convert-families.py --keys FOLDER\n")
            file.writelines(f"{key} {list(shape)}\n" for key, shape in sorted(tensors.items()))
            file.writelines(f"{key}\n" for key in sorted(objects))
    from megatron.core.ssm.mamba_hybrid_layer_allocation import allocate_layers

    with open(f"{folder}/hybrid_patterns.tsv", "w") as file:
        file.write(f"# Layers, shares of attention and of MLPs, and the pattern of megatron-core {core.__version__}.  By the script that made hybrid.keys\n")
        for count in (1, 2, 5, 10, 24, 48):
            for shares in ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.5, 0.5), (0.08, 0.5), (0.25, 0.25), (0.0, 0.5), (0.2, 0.3)):
                file.write("\t".join(map(str, (count, *shares, "".join(allocate_layers(count, *shares))))) + "\n")
    torch.distributed.destroy_process_group()
    os.remove(f"{folder}/store")


def start(work, rank):
    core = megatron_core.import_megatron()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=1)
    core.parallel_state.initialize_model_parallel()
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    return core


def load(core, folder, make_model):
    """A model loads just what is in a checkpoint."""
    args = core.dist_checkpointing.load_common_state_dict(folder)["args"]
    model = make_model(core, args).eval()
    wanted = model.sharded_state_dict()
    asked = keys_of(core, wanted)
    entries = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    assert asked <= entries.keys(), asked - entries.keys()
    tensors = {k for k, e in entries.items() if hasattr(e, "size")}
    assert tensors <= asked, tensors - asked
    found = core.dist_checkpointing.load(wanted, folder)
    by_name = {name: found[name] for name in wanted}
    model.load_state_dict(by_name)
    return model


def load_mamba(rank, folder, work):
    core = start(work, rank)
    torch.save(load(core, folder, mamba_model).state_dict(), f"{work}/loaded.pt")
    torch.distributed.destroy_process_group()


def load_trained_mamba(rank, folder, work):
    """Weights and the distributed optimizer's states, and the sum of the latter."""
    core = start(work, rank)
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, distrib_optimizer, get_megatron_optimizer

    distrib_optimizer.quantize_param_shard = lambda *_: None  # asks for Transformer Engine even without FP8
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.current_stream = lambda *_: None
    model = mamba_model(core, core.dist_checkpointing.load_common_state_dict(folder)["args"])
    model.model_type = core.enums.ModelType.encoder_or_decoder
    wrapped = DistributedDataParallel(model.config, DistributedDataParallelConfig(use_distributed_optimizer=True), model)
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=0.01, params_dtype=torch.float32,
                                                       use_distributed_optimizer=True), [wrapped])
    megatron_core.make_state(optimizer, 2)
    wanted = {"model": model.sharded_state_dict()}
    wanted["optimizer"] = optimizer.sharded_state_dict(wanted["model"], is_loading=True,
                                                       sharding_type="fully_sharded_model_space")
    found = core.dist_checkpointing.load(wanted, folder)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    states = [state for chained in optimizer.chained_optimizers for state in chained.optimizer.state.values()]
    torch.save([sum(state[name].double().abs().sum() for state in states) for name in ("exp_avg", "exp_avg_sq")],
               f"{work}/moments.pt")
    torch.distributed.destroy_process_group()


def stored_moments(folder):
    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    sums = []
    for name in ("exp_avg", "exp_avg_sq"):
        state = {key: torch.empty(entry.size) for key, entry in metadata.items()
                 if key.startswith(f"optimizer.state.{name}.") and hasattr(entry, "size")}
        dcp.load(state, checkpoint_id=folder)
        sums.append(sum(tensor.double().abs().sum() for tensor in state.values()))
    return sums


def bert_logits(rank, folder, work):
    core = start(work, rank)
    model = load(core, folder, bert_model)
    ids = torch.load(f"{work}/texts.pt")
    with torch.no_grad():
        words, sentences = model(ids, torch.ones_like(ids), ids % 2)
    torch.save((words[..., :ours.VOCAB], sentences), f"{work}/logits.pt")
    torch.distributed.destroy_process_group()


def check_bert(_, model, core, scratch):
    ids = torch.arange(1, 41)[None] * 7 % ours.VOCAB
    os.mkdir(f"{scratch}/megatron")
    torch.save(ids, f"{scratch}/megatron/texts.pt")
    torch.multiprocessing.spawn(bert_logits, (f"{core}/release", f"{scratch}/megatron"), nprocs=1)
    with torch.no_grad():
        expected = model(ids, torch.ones_like(ids), ids % 2)
    found = torch.load(f"{scratch}/megatron/logits.pt")
    return compare_logits(found, (expected.prediction_logits, expected.seq_relationship_logits))


def compare_logits(found, expected):
    worst = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(found, expected))
    if not worst < 1e-5:
        ours.fail("Megatron-Core's logits differ by", worst)
    return f", logits of Megatron-Core {worst:.1e}"


def t5_logits(rank, folder, work):
    core = start(work, rank)
    model = load(core, folder, t5_model)
    texts = torch.load(f"{work}/texts.pt")
    n, m = (text.shape[1] for text in texts)
    masks = [torch.zeros(1, 1, n, n, dtype=torch.bool), torch.ones(1, 1, m, m, dtype=torch.bool).triu(1),
             torch.zeros(1, 1, m, n, dtype=torch.bool)]
    with torch.no_grad():
        torch.save(model(*texts, *masks)[..., :ours.VOCAB], f"{work}/logits.pt")
    torch.distributed.destroy_process_group()


def check_t5(_, model, core, scratch):
    """Logits of two texts, long enough for all buckets of positions."""
    texts = [torch.arange(1, 41)[None] * 7 % ours.VOCAB, torch.arange(1, 31)[None] * 11 % ours.VOCAB]
    os.mkdir(f"{scratch}/megatron")
    torch.save(texts, f"{scratch}/megatron/texts.pt")
    torch.multiprocessing.spawn(t5_logits, (f"{core}/release", f"{scratch}/megatron"), nprocs=1)
    with torch.no_grad():
        expected = model(input_ids=texts[0], decoder_input_ids=texts[1]).logits
    return compare_logits([torch.load(f"{scratch}/megatron/logits.pt")], [expected])


def check_mamba(options, model, core, scratch):
    c = model.config
    if c.mamba_num_heads * c.mamba_head_dim != 2 * c.hidden_size:
        return ""  # which core_v0.12 has not
    os.mkdir(f"{scratch}/megatron")
    torch.multiprocessing.spawn(load_mamba, (f"{core}/release", f"{scratch}/megatron"), nprocs=1)
    loaded = torch.load(f"{scratch}/megatron/loaded.pt")
    trained = f"{scratch}/trained"
    ours.run(f"{options.bin}/mt-pretrain", "--quiet", "--load", core, "--finetune", "--save", trained, "--mock-data", "--device", "cpu",
             "--tokenizer-type", "NullTokenizer", "--vocab-size", str(ours.VOCAB - 1), "--seq-length", "16", "--micro-batch-size", "1", "--global-batch-size", "4", "--train-iters", "2", "--eval-iters", "0",
             "--lr", "0.01", "--ranks", "2", "--use-distributed-optimizer")
    torch.multiprocessing.spawn(load_trained_mamba, (f"{trained}/iter_0000002", f"{scratch}/megatron"), nprocs=1)
    moments = torch.load(f"{scratch}/megatron/moments.pt")
    if not torch.allclose(torch.stack(moments), torch.stack(stored_moments(f"{trained}/iter_0000002")), rtol=1e-6):
        ours.fail("moments that Megatron-Core loads", moments)
    return f", Megatron-Core loads {sum(torch.is_tensor(value) for value in loaded.values())}, and what is trained with its moments"


def load_and_save(rank, folder, work, saved):
    """A GPTModel loads a plain distributed checkpoint, every key that its state has, and saves it."""
    core = start(work, rank)
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    state = {"args": None, "iteration": None}
    dcp.load(state, checkpoint_id=folder)
    args = state["args"]
    config = megatron_core.transformer_config(core, args)
    model = GPTModel(config, get_gpt_layer_local_spec(normalization=args.normalization), args.padded_vocab_size,
                     args.max_position_embeddings, position_embedding_type=args.position_embedding_type,
                     share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    state["model"] = model.state_dict()
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"], strict=True)
    assert not any(parameter.isnan().any() for parameter in model.parameters())
    dcp.save({"args": args, "model": model.state_dict()}, checkpoint_id=saved)
    torch.distributed.destroy_process_group()


def check_dcp(options, name):
    with tempfile.TemporaryDirectory() as scratch:
        convert = lambda *arguments: ours.run(f"{options.bin}/mt-convert", "--quiet", "--verify", *arguments)  # noqa: E731
        original, plain, saved = (f"{scratch}/{x}" for x in ("original", "plain", "saved"))
        model = ours.build(ours.MODELS[name], torch.float32)
        model.save_pretrained(original)
        for number, state in enumerate((model.state_dict(), {"model": model.state_dict(), "step": 3})):
            folder = f"{scratch}/dcp{number}"
            dcp.save(state, checkpoint_id=folder)
            model.config.save_pretrained(folder)
            convert("--saver", "hf", folder, f"{folder}-back")
            ours.same_tensors(original, f"{folder}-back")
        convert("--ckpt-format", "torch_dcp", "--saver-transformer-impl", "local", original, plain)
        convert("--saver", "hf", plain, f"{scratch}/plain-back")
        ours.same_tensors(original, f"{scratch}/plain-back")
        dcp.format_utils.dcp_to_torch_save(f"{plain}/release", f"{scratch}/nested.pt")
        nested = torch.load(f"{scratch}/nested.pt", weights_only=False)
        if nested["args"].num_layers != 2 or "embedding.word_embeddings.weight" not in nested["model"]:
            ours.fail("dcp_to_torch_save() finds", nested.keys())
        if name != "megatron-bert":
            os.mkdir(f"{scratch}/megatron")
            torch.multiprocessing.spawn(load_and_save, (f"{plain}/release", f"{scratch}/megatron", saved), nprocs=1)
            convert("--saver", "hf", saved, f"{scratch}/saved-back")
            ours.same_tensors(original, f"{scratch}/saved-back")
        print(f"{name}: plain distributed checkpoints", flush=True)


def check(options, name, config, dtype, shards):
    with tempfile.TemporaryDirectory() as scratch:
        original, core, back = (f"{scratch}/{x}" for x in ("original", "core", "back"))
        model = build(name, config, dtype)
        model.save_pretrained(original, **shards)
        ours.run(f"{options.bin}/mt-convert", "--quiet", "--verify", original, core)
        ours.run(f"{options.bin}/mt-convert", "--quiet", "--verify", "--saver", "hf", core, back)
        count = ours.same_tensors(original, back)
        ours.same_settings(model.config, back)
        ours.check_loads(back, dtype, type(model))
        ours.check_no_common_file(options, core, scratch)
        result = ""
        if dtype == torch.float32:
            of_type = {"t5": check_t5, "megatron-bert": check_bert, "nemotron_h": check_mamba}
            result = of_type[config.model_type](options, model, core, scratch)
        print(f"{name}, {str(dtype)[6:]}: {count} tensors{result}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", nargs="?")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; default all")
    parser.add_argument("--keys", metavar="FOLDER")
    options = parser.parse_args()
    if options.keys:
        return torch.multiprocessing.spawn(write_keys, (os.path.abspath(options.keys),), nprocs=1)
    for name, config in MODELS.items():
        if not options.models or name in options.models:
            check(options, name, config, torch.float32, {})
            check(options, name, config, torch.bfloat16, {"max_shard_size": "20KB"})
    if not options.models:
        for name in ("llama with query groups", "gpt2", "megatron-bert"):
            check_dcp(options, name)
    sys.exit(bool(ours.failures))


if __name__ == "__main__":
    main()
