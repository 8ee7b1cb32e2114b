#!/usr/bin/env python3
"""Convert tiny random models of families that are more than one stack of equal layers, as compare-convert.py does.

For each T5 below (of transformers, in float32 and, in several files, in bfloat16):
  - mt-convert makes a torch_dist checkpoint of it, and of that again a folder of Hugging Face's, whose every
    tensor must have the bytes of the original, and which transformers must load with the same settings;
  - Megatron-Core's T5Model of the local spec must ask for just the tensors and objects that the checkpoint holds, load
    them, and find the logits of the original, to 1e-5.  Its own attention takes no relative positions without
    Transformer Engine; here they are added to its scores, where Transformer Engine adds them.

Needs what compare-convert.py needs, and megatron-core 0.12.1.
Run:  scripts/compare-convert-families.py BIN [MODEL ...]        BIN holds mt-convert
      scripts/compare-convert-families.py --keys FOLDER          remakes testdata/model/*.keys
"""
import argparse
import importlib.util
import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
import transformers as T


def import_sibling(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), pathlib.Path(__file__).with_name(name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ours = import_sibling("compare-convert")
T5 = dict(vocab_size=ours.VOCAB, d_model=64, d_kv=16, d_ff=72, num_layers=2, num_heads=3,
          relative_attention_num_buckets=12, relative_attention_max_distance=20, bos_token_id=3)
MODELS = {
    "t5 1.0": T.T5Config(**T5),
    "t5 1.1": T.T5Config(**T5 | dict(d_model=40, num_decoder_layers=3), feed_forward_proj="gated-gelu",
                         tie_word_embeddings=False),
    "t5, tied, not scaled": T.T5Config(**T5 | dict(d_model=40), scale_decoder_outputs=False),
    "t5 with gated silu": T.T5Config(**T5, feed_forward_proj="gated-silu", tie_word_embeddings=False),
    "t5 with gelu": T.T5Config(**T5 | dict(num_decoder_layers=1), feed_forward_proj="gelu"),
}


def build(name, config, dtype):
    torch.manual_seed(1)
    model = T.T5ForConditionalGeneration(config)
    if name in ("t5 1.1", "t5 with gated silu"):  # whose transformers ties what files do not keep apart
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            deviation = 0.3 / config.d_kv if parameter_name.endswith(".q.weight") else 0.3  # as scores are not divided
            parameter.copy_((parameter.dim() == 1) + torch.randn_like(parameter) * deviation)
    return model.to(dtype).eval()


def t5_model(core, args):
    """Megatron-Core's T5Model, with an attention that takes relative positions."""
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

    config, encoder_config = (import_sibling("compare-megatron").transformer_config(core, args) for _ in range(2))
    activation = getattr(args, "activation_func", None)
    for each in (config, encoder_config):
        if activation == "relu":
            each.activation_func = torch.nn.functional.relu
        if getattr(args, "gated_linear_unit", False):
            each.activation_func = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    encoder_config.num_layers = args.encoder_num_layers
    layers = []
    for spec, count in ((t5_spec.encoder_model_with_local_spec(), args.encoder_num_layers),
                        (t5_spec.decoder_model_with_local_spec(), args.num_layers)):
        spec.submodules.self_attention.submodules.core_attention = Attention
        layers.append(transformer_block.TransformerBlockSubmodules([spec] * count, torch_norm.WrappedTorchNorm))
    return t5.T5Model(config, encoder_config, *layers, args.padded_vocab_size, args.max_position_embeddings,
                      parallel_output=False, position_embedding_type=args.position_embedding_type,
                      share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                      relative_attention_num_buckets=args.relative_attention_num_buckets,
                      relative_attention_max_distance=args.relative_attention_max_distance)


def keys_of(core, wanted):
    """What a model's state asks of a checkpoint."""
    objects = {v.unique_key for v in wanted.values() if isinstance(v, core.dist_checkpointing.mapping.ShardedObject)}
    return objects | {part.key for value in wanted.values() for part in ours.parts_of(core, value)}


def write_keys(rank, folder):
    """What Megatron-Core's models ask of a checkpoint, for the settings of tests/model/convert_support.h."""
    _, core = ours.import_megatron()
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=1)
    core.parallel_state.initialize_model_parallel()
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    shared = dict(num_layers=3, encoder_num_layers=2, hidden_size=16, num_attention_heads=4, kv_channels=4,
                  ffn_hidden_size=40, padded_vocab_size=128, max_position_embeddings=8, normalization="RMSNorm",
                  norm_epsilon=1e-6, apply_layernorm_1p=False, group_query_attention=False, add_bias_linear=False,
                  swiglu=False, squared_relu=False, bias_gelu_fusion=False, position_embedding_type="relative",
                  relative_attention_num_buckets=6, relative_attention_max_distance=9)
    for name, own in (("t5", dict(untie_embeddings_and_output_weights=False)),
                      ("t5_gated", dict(untie_embeddings_and_output_weights=True, gated_linear_unit=True))):
        wanted = t5_model(core, argparse.Namespace(**shared | own)).sharded_state_dict()
        tensors = {p.key: p.global_shape for value in wanted.values() for p in ours.parts_of(core, value)}
        objects = {v.unique_key for v in wanted.values() if isinstance(v, core.dist_checkpointing.mapping.ShardedObject)}
        with open(f"{folder}/{name}.keys", "w") as file:
            file.write(f"# What the {name} of tests/model/convert_support.h is to megatron-core {core.__version__}'s T5Model: keys of\n"
                       "# tensors with their shapes, keys of objects.  Made by scripts/compare-convert-families.py --keys FOLDER\n")
            file.writelines(f"{key} {list(shape)}\n" for key, shape in sorted(tensors.items()))
            file.writelines(f"{key}\n" for key in sorted(objects))
    torch.distributed.destroy_process_group()
    os.remove(f"{folder}/store")


def t5_logits(rank, folder, work):
    _, core = ours.import_megatron()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{work}/store", rank=rank, world_size=1)
    core.parallel_state.initialize_model_parallel()
    core.tensor_parallel.model_parallel_cuda_manual_seed(1)
    args = core.dist_checkpointing.load_common_state_dict(folder)["args"]
    model = t5_model(core, args).eval()
    wanted = model.sharded_state_dict()
    asked = keys_of(core, wanted)
    entries = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    assert asked <= entries.keys(), asked - entries.keys()
    tensors = {k for k, e in entries.items() if hasattr(e, "size")}
    assert tensors <= asked, tensors - asked
    found = core.dist_checkpointing.load(wanted, folder)
    model.load_state_dict({name: found[name] for name in wanted})
    texts = torch.load(f"{work}/texts.pt")
    n, m = (text.shape[1] for text in texts)
    masks = [torch.zeros(1, 1, n, n, dtype=torch.bool), torch.ones(1, 1, m, m, dtype=torch.bool).triu(1),
             torch.zeros(1, 1, m, n, dtype=torch.bool)]
    with torch.no_grad():
        torch.save(model(*texts, *masks)[..., :ours.VOCAB], f"{work}/logits.pt")
    torch.distributed.destroy_process_group()


def check_t5(model, core, scratch):
    """Logits of two texts, long enough for all buckets of positions."""
    texts = [torch.arange(1, 41)[None] * 7 % ours.VOCAB, torch.arange(1, 31)[None] * 11 % ours.VOCAB]
    os.mkdir(f"{scratch}/work")
    torch.save(texts, f"{scratch}/work/texts.pt")
    torch.multiprocessing.spawn(t5_logits, (f"{core}/release", f"{scratch}/work"), nprocs=1)
    with torch.no_grad():
        expected = model(input_ids=texts[0], decoder_input_ids=texts[1]).logits
    found = torch.load(f"{scratch}/work/logits.pt")
    worst = ((found - expected).abs().max() / expected.abs().max()).item()
    if not worst < 1e-5:
        ours.fail("Megatron-Core's logits differ by", worst)
    return f", logits of Megatron-Core {worst:.1e}"


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
        result = check_t5(model, core, scratch) if dtype == torch.float32 else ""
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
    sys.exit(ours.failures > 0)


if __name__ == "__main__":
    main()
