#!/usr/bin/env python3
"""Trains twenty steps from one of mt-pretrain's checkpoints with Megatron-Core, and compares.

For each case below mt-preprocess makes token files of testdata's stories, and mt-pretrain trains 25 steps in
fp32 with a checkpoint after the fifth.  Megatron-Core reads that checkpoint (model settings, weights,
optimizer, schedule) with its own reader, builds its GPTModel, BertModel or T5Model of the local spec and the
dataset that goes with it over the same token files, and trains the other twenty steps with its own data-parallel
wrapper, gradient reduction, clipping, optimizer and schedule, on as many gloo ranks.  Losses must be equal to
1e-5, gradient norms to 1e-4, learning rates to 1e-15.  How it runs without a GPU, megatron_core.py says.

Needs from PyPI: megatron-core 0.12.1, torch (tried with 2.15.0), numpy, psutil.

Run:  scripts/compare-megatron.py build/release/cmd [CASE ...]
"""
import argparse
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import types

from megatron_core import import_megatron, make_bert, make_gpt, make_state, make_t5, transformer_config
import torch
import torch.nn.functional as F

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
    "experts-of-gelu": LLAMA.replace("--swiglu", "--no-bias-gelu-fusion") + " --num-experts 4 --moe-aux-loss-coeff 0.3"
                       " --moe-shared-expert-intermediate-size 24",
    "experts-of-squared-relu": LLAMA.replace("--swiglu", "--squared-relu") + " --num-experts 4 --moe-layer-freq 2 --ranks 2"
                               " --use-distributed-optimizer",
    "experts-routers-in-fp64": LLAMA + " --num-experts 5 --moe-router-dtype fp64 --moe-aux-loss-coeff 0.3 --moe-z-loss-coeff 0.05",
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


def load(core, folder, common, model, optimizer, schedule):
    """Weights and optimizer by Megatron-Core's own reader, which refuses what is missing."""
    make_state(optimizer, FIRST)
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
