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
Of ranks that share out the distributed optimizer's work, torch_dist checkpoints that have its state in other forms must
give the same moments: dp_zero_gather_scatter and, by other releases, dp_reshardable, fully_reshardable and
fully_sharded_bucket_space.  Of the main branch's, and fully_reshardable, mt-convert makes fully_reshardable ones for
another layout, which its ranks load.

Needs from PyPI: torch, transformers, safetensors and megatron-core 0.12.1 (see megatron_core.py), for hybrids
einops; --releases FOLDER: each in a folder of its own (see megatron_releases.py), megatron-core 0.7.0 (which wants a
setuptools below 82), 0.10.0 and 0.16.1, and as 0.20.0 a checkout of Megatron-LM's main branch that says it is that.
With --golden FOLDER what the first step saves of a tiny model, GPT-2 if no other is named, is left there, for the tests.

Run:  scripts/compare-ranks.py BIN [-j N]        BIN holds mt-convert
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import shutil
import sys
import tempfile

import sharding_checks
import torch
import transformers as T
from rank_models import MODELS, Layout, Sharding, check_moments, draw, formats_of, layout_flags, run, spawn

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


SMALL_LLAMA = dict(vocab_size=61, max_position_embeddings=8, num_hidden_layers=2, num_attention_heads=2, hidden_size=8,
                   intermediate_size=12)
LLAMA = T.LlamaConfig(tie_word_embeddings=True, **SMALL_LLAMA)
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
    "dp_zero_gather_scatter": (LLAMA, Layout(2, 2, dp=2), torch.bfloat16, sharding_checks.OF_0_12),
    "dp_reshardable": (LLAMA, Layout(2, 2, dp=2), torch.bfloat16, sharding_checks.OF_0_16),
    "fully_sharded_bucket_space": (T.LlamaConfig(**SMALL_LLAMA), Layout(2, 2, dp=2), torch.bfloat16, sharding_checks.OF_0_7),
    "mixtral gemm dp_reshardable": (
        T.MixtralConfig(vocab_size=13, hidden_size=8, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=2,
                        intermediate_size=4, num_local_experts=4, max_position_embeddings=8),
        Layout(1, 2, ep=2, stages="Et|tL"), torch.float16, sharding_checks.OF_0_16),
}


def write_golden(bin, folder, name):
    config, layout, dtype, distributed = GOLDENS[name]
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(distributed, Sharding):
            kind = name.removesuffix(distributed.form).strip() or "llama"
            sharding_checks.save(bin, scratch, config, kind, dtype, distributed, layout, "--make-vocab-size-divisible-by", "8")
            shutil.copytree(f"{scratch}/saved/{distributed.form}", folder)
            return
        draw(config, dtype, f"{scratch}/hf")
        run(f"{bin}/mt-convert", "--quiet", "--make-vocab-size-divisible-by", "8", *layout_flags(name, layout),
            f"{scratch}/hf", f"{scratch}/weights")
        spawn(name, layout, f"{scratch}/weights/release", f"{scratch}/saved", distributed)
        shutil.copytree(f"{scratch}/saved/torch", folder)
    pathlib.Path(folder, "latest_checkpointed_iteration.txt").write_text("7")


def outcome(check_one, *case):
    """How many moments were compared, or what failed."""
    try:
        return check_one(*case)
    except (Exception, SystemExit) as error:
        return repr(error) if isinstance(error, AssertionError) else error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}; default all")
    parser.add_argument("-j", metavar="N", type=int, default=os.cpu_count(), help="cases at a time; default the cores")
    parser.add_argument("--golden", metavar="FOLDER")
    parser.add_argument("--releases", metavar="FOLDER", default="", help="holds other releases of megatron-core")
    parser.add_argument("--shardings", action="store_true", help="only the other forms of the distributed optimizer's state")
    options = parser.parse_intermixed_args()
    os.environ["MEGATRON_RELEASES"] = options.releases
    if options.golden:
        for name in options.models if options.models != list(MODELS) else ["gpt2"]:
            write_golden(options.bin, options.golden, name)
        return
    kinds = {"bert": BERT_LAYOUTS, "hybrid": ONE_CHUNK_LAYOUTS, "mixtral": EXPERT_LAYOUTS, "t5": t5_layouts(3, 2, 2),
             "t5 1.1": t5_layouts(2, 3, 1)}
    jobs = []
    for name in options.models if not options.shardings else ():
        layouts = kinds.get(name) or kinds.get(name.split(" ")[0], LAYOUTS)
        optimizers = list(itertools.product((torch.float32, torch.bfloat16), (False, True)))
        for i in range(max(len(optimizers), len(layouts))):
            dtype, distributed = optimizers[i % len(optimizers)]
            first, second = layouts[i % len(layouts)]
            jobs.append((f"{name}, {str(dtype)[6:]}{', distributed optimizer' if distributed else ''}: "
                         f"ranks {first} to {second}", check, (name, dtype, distributed, first, second)))
    for name, dtype, sharding, layout in sharding_checks.cases(options.models):
        size = f", buckets of {sharding.size}" if sharding.size else ""
        jobs.append((f"{name}, {str(dtype)[6:]}, {sharding.form} of {sharding.release}{size}: ranks {layout}",
                     sharding_checks.check, (name, dtype, sharding, layout)))
    torch.multiprocessing.set_forkserver_preload(["torch.distributed.checkpoint", "transformers"])  # by ranks, once
    total = failures = 0
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        results = pool.map(lambda job: outcome(job[1], options.bin, *job[2]), jobs)
        for (title, *_), result in zip(jobs, results):
            failed = not isinstance(result, int)
            print(f"{title}, {f'FAILED: {result}' if failed else f'{result} moments'}", flush=True)
            failures += failed
            total += 0 if failed else result
    if sharding_checks.absent():
        print(f"not compared, for want of their releases: {', '.join(sharding_checks.absent())}")
    print(f"{len(jobs)} cases, {failures} failed, {total} moments")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
