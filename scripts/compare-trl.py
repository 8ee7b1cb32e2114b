#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune sft with those of TRL's SFTTrainer, on the CPU in float32.

A tiny Llama and a tiny Qwen3 with the tokenizer of testdata/gpt2_bpe and a chat template with a generation block
learn 80 conversations of one or two turns, four a step, in order, with a constant learning rate, by the likelihood of
what the assistant says and by dynamic finetuning's loss (dft).  Losses must agree to 1e-5, gradient norms and token accuracies to 1e-4; the weights at the end are compared, too, to 1e-4.
So do a Qwen3-MoE, and a Mixtral of one layer with transformers' loss of its router, which is over the layers together and
leaves out padding, where ours is the mean of the layers' and over whole samples: hence one layer, and texts without a
system's message that are cut to the same length, in twelve steps.  Theirs is that of Megatron-Core times the number of
experts that a token goes to.

  --program PATH   also run mt-finetune (its folder on $PATH has mt-convert), and compare
  --keep FOLDER    write the models, the conversations and TRL's numbers there: testdata/trl is made so

Needs from PyPI: trl, transformers, torch (tried with 1.16.0, 5.24.0, 2.15.0).
Run:  scripts/compare-trl.py --program build/release/cmd/mt-finetune
      scripts/compare-trl.py --keep testdata/trl
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
import trl
from datasets import Dataset
from trl_recording import arguments, in_order

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
STEPS, BATCH, LENGTH, SHORT = 20, 4, 128, 32
CHOSEN, BALANCE = 2, 0.5  # experts that a token goes to, and the weight of their loss
TEMPLATE = """{% for m in messages %}{% if m.role == 'assistant' %}{{ 'Assistant: ' }}{% generation %}\
{{ m.content + eos_token }}{% endgeneration %}{{ '\\n' }}{% else %}{{ m.role + ': ' + m.content + '\\n' }}{% endif %}\
{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"""
OPTIONS = ["--global-batch-size", str(BATCH), "--packing", "none", "--no-shuffle", "--valid-split", "0", "--lr", "1e-3",
           "--lr-decay-style", "constant", "--lr-warmup-fraction", "0", "--dtype", "fp32",
           "--device", "cpu"]


def steps_of(kind):
    return 12 if kind == "mixtral" else STEPS


def is_learnt_by(kind, conversation):
    return kind != "mixtral" or conversation["messages"][0]["role"] != "system"


def options_of(kind):
    steps = ["--train-iters", str(steps_of(kind))]
    if kind == "mixtral":
        return [*steps, "--seq-length", str(SHORT), "--overlong", "cut", "--micro-batch-size", str(BATCH), "--moe-aux-loss-coeff",
                str(BALANCE * CHOSEN)]
    balance = ["--moe-aux-loss-coeff", "0"] if kind == "qwen3_moe" else []
    return [*steps, "--seq-length", str(LENGTH), "--micro-batch-size", "2", *balance]


def conversations():
    stories = [json.loads(line)["text"].split(". ") for line in open(REPOSITORY / "testdata/stories/stories.jsonl")]
    choose = random.Random(1)
    for _ in range(STEPS * BATCH):
        messages = [{"role": "system", "content": "Be brief."}] if choose.random() < 0.3 else []
        for _ in range(choose.randint(1, 2)):
            messages.append({"role": "user", "content": choose.choice(["Who?", "What then?", "And?"])})
            messages.append({"role": "assistant", "content": choose.choice(choose.choice(stories))[:24].strip()})
        yield {"messages": messages}


def make_folder(kind, folder):
    sizes = dict(vocab_size=380, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=32, max_position_embeddings=LENGTH, bos_token_id=379, eos_token_id=379,
                 pad_token_id=None, initializer_range=0.1)
    experts = dict(num_experts_per_tok=CHOSEN, sliding_window=None, experts_implementation="eager")
    config = {
        "llama": lambda: transformers.LlamaConfig(**sizes),
        # Of rows of whole blocks of bitsandbytes' NF4: compare-peft.py alone has it.
        "wide": lambda: transformers.LlamaConfig(**{**sizes, "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64},
                                                 tie_word_embeddings=True),
        # Hybrids: compare-peft.py alone has them.
        "bamba": lambda: transformers.BambaConfig(**sizes, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8,
                                                  mamba_n_groups=2, mamba_chunk_size=8, attn_layer_indices=[1]),
        "nemotron_h": lambda: transformers.NemotronHConfig(
            **{name: size for name, size in sizes.items() if name != "num_hidden_layers"}, head_dim=8, mamba_num_heads=4,
            mamba_head_dim=8, ssm_state_size=8, n_groups=2, chunk_size=8, layers_block_type=["mamba", "mlp", "attention", "mamba"]),
        "qwen3": lambda: transformers.Qwen3Config(**sizes, head_dim=8, tie_word_embeddings=True),
        "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**sizes, head_dim=8, num_experts=5, moe_intermediate_size=12,
                                                         norm_topk_prob=True, **experts),
        "mixtral": lambda: transformers.MixtralConfig(**{**sizes, "num_hidden_layers": 1}, num_local_experts=4,
                                                      output_router_logits=True, router_aux_loss_coef=BALANCE, **experts),
    }[kind]()
    torch.manual_seed(7)
    transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder)
    words = REPOSITORY / "testdata/gpt2_bpe"
    tokenizer = transformers.GPT2TokenizerFast(str(words / "vocab.json"), str(words / "merges.txt"),
                                               pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)


Recording = in_order(trl.SFTTrainer)


def by_trl(kind, folder, scratch, loss):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config = trl.SFTConfig(
        output_dir=scratch, per_device_train_batch_size=BATCH, max_steps=steps_of(kind),
        max_length=SHORT if kind == "mixtral" else LENGTH, router_aux_loss_coef=BALANCE if kind == "mixtral" else 0.0,
        learning_rate=1e-3, lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
        adam_epsilon=1e-8, max_grad_norm=1.0, **({} if loss == "nll" else {"loss_type": loss}), packing=False,
        assistant_only_loss=True, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
        gradient_checkpointing=False, disable_tqdm=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    trainer = Recording(model=model, args=config, processing_class=tokenizer,
                        train_dataset=Dataset.from_list([c for c in conversations() if is_learnt_by(kind, c)]))
    trainer.losses = []
    trainer.train()
    norms, hits = ([float(entry[name]) for entry in trainer.state.log_history if "grad_norm" in entry]
                   for name in ("grad_norm", "mean_token_accuracy"))
    return trainer.losses, norms, hits, {name: p.detach() for name, p in model.named_parameters()}


def by_program(program, kind, folder, lines, scratch, loss):
    save = f"{scratch}/save"
    run = subprocess.run([program, "sft", "--load", folder, "--train-data", lines, "--save", save, "--json", "--quiet",
                          "--loss", loss, *options_of(kind), *OPTIONS], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    convert = str(pathlib.Path(program).parent / "mt-convert")
    subprocess.run([convert, "--saver", "hf", "--quiet", save, f"{scratch}/hf"], check=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{scratch}/hf", dtype=torch.float32)
    balance = BALANCE * CHOSEN if kind == "mixtral" else 0
    losses = [e["loss"] + balance * e.get("load_balancing_loss", 0) for e in steps]
    return losses, *([e[name] for e in steps] for name in ("grad_norm", "token_accuracy")), dict(model.named_parameters())


def write_golden(path, losses, norms, hits):
    with open(path, "w", encoding="ascii") as golden:
        golden.write(f"# scripts/compare-trl.py; trl {trl.__version__}, transformers {transformers.__version__}, torch "
                     f"{torch.__version__}: losses, gradient norms, token accuracies\n")
        golden.writelines(f"{loss:.8f} {norm:.7f} {share:.7f}\n" for loss, norm, share in zip(losses, norms, hits, strict=True))


def differ(what, steps, got, expected):
    losses, *_, weights = expected
    apart = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in zip(got[:3], expected[:3], strict=True)]
    apart.append(max((got[3][name] - weight).abs().max().item() for name, weight in weights.items()))
    print(f"{what}: {steps} steps, losses {losses[0]:.4f} to {losses[-1]:.4f}; largest differences: "
          f"loss {apart[0]:.1e}, norm {apart[1]:.1e}, token accuracy {apart[2]:.1e}, weight {apart[3]:.1e}")
    return apart[0] > 1e-5 or max(apart[1:]) > 1e-4


def main():
    args = arguments(__doc__)
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or f"{top}/keep")
        os.makedirs(keep, exist_ok=True)
        lines = keep / "conversations.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in conversations()))
        for kind in ("llama", "qwen3", "qwen3_moe", "mixtral"):
            folder, scratch = str(keep / kind), f"{top}/{kind}"
            shutil.rmtree(folder, ignore_errors=True)
            make_folder(kind, folder)
            taken = pathlib.Path(f"{scratch}.jsonl")
            taken.write_text("".join(json.dumps(c) + "\n" for c in conversations() if is_learnt_by(kind, c)))
            for loss in ("nll",) if kind in ("qwen3_moe", "mixtral") else ("nll", "dft"):
                expected = by_trl(kind, folder, f"{scratch}/trl-{loss}", loss)
                write_golden(keep / (f"{kind}.golden" if loss == "nll" else f"{kind}-{loss}.golden"), *expected[:3])
                if args.program:
                    got = by_program(args.program, kind, folder, str(taken), f"{scratch}/{loss}", loss)
                    differs |= differ(f"{kind}, {loss}", steps_of(kind), got, expected)
    sys.exit(differs)


if __name__ == "__main__":
    main()
