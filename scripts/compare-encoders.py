#!/usr/bin/env python3
"""Compares losses of transformers' T5 and Megatron-BERT with those of mt-pretrain over the same samples.

Each model below is tiny and random.  mt-convert makes a checkpoint of it, of which mt-pretrain gives the losses of
sixteen samples of testdata's stories; transformers gives them in fp64 of what `mt-preprocess samples` prints of the
same samples.  They must be equal to 1e-5.

Needs from PyPI: torch, transformers (tried with 2.15.0 and 4.51.3), safetensors.

Run:  scripts/compare-encoders.py build/release/cmd [CASE ...]
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["MT_DEVICE"] = "cpu"
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
WORDS = ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", f"{TESTDATA}/wordpiece/vocab.txt"]
T5 = dict(vocab_size=343, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_decoder_layers=3, num_heads=4,
          dropout_rate=0, relative_attention_num_buckets=8, relative_attention_max_distance=20, pad_token_id=0,
          eos_token_id=242, decoder_start_token_id=241)
T5_FLAGS = """--model-type t5 --encoder-num-layers 2 --decoder-num-layers 3 --kv-channels 16 --ffn-hidden-size 96
  --normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear --swiglu --untie-embeddings-and-output-weights
  --position-embedding-type relative --relative-attention-num-buckets 8 --relative-attention-max-distance 20
  --vocab-extra-ids 100 --encoder-seq-length 40 --decoder-seq-length 24"""
BERT = dict(vocab_size=243, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
            max_position_embeddings=40, type_vocab_size=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            layer_norm_eps=1e-5, hidden_act="gelu")
BERT_FLAGS = """--model-type bert --num-layers 3 --ffn-hidden-size 96 --seq-length 40 --no-bias-gelu-fusion"""
FLAGS = """--hidden-size 64 --num-attention-heads 4 --max-position-embeddings 40 --make-vocab-size-divisible-by 1
  --hidden-dropout 0 --attention-dropout 0 --micro-batch-size 16 --global-batch-size 16 --train-iters 1 --eval-iters 1
  --skip-train --finetune --lr 1e-3 --split 0,100,0"""


def make_t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**T5, feed_forward_proj="gated-silu", tie_word_embeddings=False))


def losses_of_t5(model, sample):
    logits = model(input_ids=sample("text_enc"), attention_mask=sample("enc_mask"),
                   decoder_input_ids=sample("text_dec")).logits
    return [F.cross_entropy(logits.transpose(1, 2), sample("labels"), ignore_index=-1)]


def make_bert():
    return transformers.MegatronBertForPreTraining(transformers.MegatronBertConfig(**BERT))


def losses_of_bert(model, sample):
    output = model(input_ids=sample("text"), attention_mask=sample("padding_mask"), token_type_ids=sample("types"))
    return [F.cross_entropy(output.prediction_logits.transpose(1, 2), sample("labels"), ignore_index=-1),
            F.cross_entropy(output.seq_relationship_logits, sample("is_random"))]


CASES = {
    "t5-relative": (make_t5, losses_of_t5, T5_FLAGS),
    "megatron-bert": (make_bert, losses_of_bert, BERT_FLAGS),
}


def draw(model):
    with torch.no_grad():
        for name, weights in model.named_parameters():
            norm = re.search(r"(layer_?norm|\.ln|LayerNorm)\.weight$", name) is not None
            weights.copy_(norm + torch.randn_like(weights) * (1 if "relative" in name else 0.1))


def samples_of(programs, flags, folder):
    """The samples that mt-pretrain evaluates on, by Megatron's names of their fields."""
    known = ("--seq-length", "--encoder-seq-length", "--decoder-seq-length", "--vocab-extra-ids")
    lengths = [word for name, value in zip(flags, flags[1:]) if name in known for word in (name, value)]
    lines = subprocess.run(
        [f"{programs}/mt-preprocess", "samples", "--dataset", flags[1], "--data-path", "stories_text_sentence", "--split",
         "0,100,0", "--part", "valid", "--samples", "16", "--count", "16", "--json", *lengths],
        cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()
    samples = [json.loads(line) for line in lines]
    return lambda name: torch.tensor([sample[name] for sample in samples])


def compare(programs, name):
    make, losses_of, flags = CASES[name]
    flags = flags.split()
    torch.manual_seed(1)
    model = make().eval()
    draw(model)
    with tempfile.TemporaryDirectory() as folder:
        def run(program, *arguments):
            return subprocess.run([f"{programs}/{program}", *arguments], cwd=folder, check=True, capture_output=True,
                                  text=True)

        run("mt-preprocess", "--split-sentences", "--lang", "en", *WORDS, "--input", f"{TESTDATA}/stories/stories.jsonl",
            "--output-prefix", "stories")
        model.save_pretrained(f"{folder}/theirs")
        run("mt-convert", "theirs", "ours")
        log = run("mt-pretrain", "--load", "ours", "--data-path", "stories_text_sentence", *flags, *FLAGS.split())
        ours = [float(loss) for loss in re.findall(r"loss value: (\S+)", log.stdout + log.stderr)]
        with torch.no_grad():
            theirs = [loss.item() for loss in losses_of(model.double(), samples_of(programs, flags, folder))]
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"{name}: losses {' '.join(f'{loss:.6f}' for loss in ours)}; largest difference {worst:.1e}"
          f"{'' if worst <= 1e-5 else '  NOT EQUAL'}", flush=True)
    return worst <= 1e-5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", help="folder of mt-preprocess, mt-convert and mt-pretrain")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default all")
    args = parser.parse_args()
    programs = pathlib.Path(args.programs).resolve()
    results = [compare(programs, name) for name in args.cases or CASES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
