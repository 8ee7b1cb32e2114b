#!/usr/bin/env python3
"""Compare adapters of mt-finetune sft with those of PEFT, which TRL's SFTTrainer trains, on the CPU in float32.

The models and conversations of compare-trl.py, with adapters of rank 4 on every linear layer, plain, rank-stabilised
and of DoRA, whose A and B are random numbers.  Of twenty steps losses must agree to 1e-5 and gradient norms to
1e-4.  The adapter that mt-finetune saves must load in PEFT, and the merged model in transformers, with the logits of
what TRL trained, to 1e-4, and with each other's to 1e-5.

  --program PATH   also run mt-finetune and compare
  --keep FOLDER    write the adapters and TRL's numbers there: testdata/trl is made so

Needs from PyPI: trl, peft, transformers, torch (tried with 1.16.0, 0.21.2, 5.24.0, 2.15.0).
Run:  scripts/compare-peft.py --program build/release/cmd/mt-finetune
      scripts/compare-peft.py --keep testdata/trl
"""
import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
import trl
from datasets import Dataset

spec = importlib.util.spec_from_file_location("compare_trl", pathlib.Path(__file__).parent / "compare-trl.py")
compare_trl = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare_trl)
FORMS = {"llama-lora": ("llama", {}), "qwen3-lora": ("qwen3", {}),
         "llama-rslora": ("llama", {"use_rslora": True, "lora_alpha": 4}),
         "qwen3-dora": ("qwen3", {"use_dora": True})}


def base_of(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def make_adapter(base, settings, folder):
    torch.manual_seed(11)
    config = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM",
                             init_lora_weights=False, **{"lora_alpha": 8} | settings)
    peft.get_peft_model(base_of(base), config).save_pretrained(folder)
    (pathlib.Path(folder) / "README.md").unlink(missing_ok=True)
    path = pathlib.Path(folder) / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = pathlib.Path(base).name
    path.write_text(json.dumps(config, indent=2, sort_keys=True))


def by_trl(base, adapter, scratch):
    model = peft.PeftModel.from_pretrained(base_of(base), adapter, is_trainable=True)
    config = trl.SFTConfig(
        output_dir=scratch, per_device_train_batch_size=compare_trl.BATCH, max_steps=compare_trl.STEPS,
        max_length=compare_trl.LENGTH, learning_rate=1e-3, lr_scheduler_type="constant", warmup_steps=0,
        weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8, max_grad_norm=1.0, packing=False,
        assistant_only_loss=True, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
        gradient_checkpointing=False, disable_tqdm=True)
    trainer = compare_trl.Recording(model=model, args=config,
                                    processing_class=transformers.AutoTokenizer.from_pretrained(base),
                                    train_dataset=Dataset.from_list(list(compare_trl.conversations())))
    trainer.losses = []
    trainer.train()
    norms = [float(entry["grad_norm"]) for entry in trainer.state.log_history if "grad_norm" in entry]
    return trainer.losses, norms, model


def logits_of(model):
    ids = torch.arange(64).reshape(2, 32) * 5 % 370
    with torch.no_grad():
        return model.eval()(ids).logits


def by_program(program, base, adapter, lines, scratch):
    save = f"{scratch}/save"
    run = subprocess.run([program, "sft", "--load", base, "--adapter", adapter, "--train-data", lines, "--save", save,
                          "--json", "--quiet", *compare_trl.OPTIONS], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    subprocess.run([program, "merge", "--load", save, "--save", f"{scratch}/merged", "--dtype", "fp32",
                    "--quiet"], check=True)
    saved = f"{save}/iter_{compare_trl.STEPS:07}"
    return ([e["loss"] for e in steps], [e["grad_norm"] for e in steps],
            logits_of(peft.PeftModel.from_pretrained(base_of(base), saved)), logits_of(base_of(f"{scratch}/merged")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--keep")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or f"{top}/keep")
        keep.mkdir(parents=True, exist_ok=True)
        lines = keep / "conversations.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in compare_trl.conversations()))
        for form, (kind, settings) in FORMS.items():
            base, adapter, scratch = str(keep / kind), str(keep / form), f"{top}/{form}"
            if not pathlib.Path(base).exists():
                compare_trl.make_folder(kind, base)
            shutil.rmtree(adapter, ignore_errors=True)
            make_adapter(base, settings, adapter)
            losses, norms, trained = by_trl(base, adapter, f"{scratch}/trl")
            with open(keep / f"{form}.golden", "w", encoding="ascii") as golden:
                golden.write(f"# scripts/compare-peft.py; peft {peft.__version__}, trl {trl.__version__}, transformers "
                             f"{transformers.__version__}, torch {torch.__version__}: losses, gradient norms\n")
                golden.writelines(f"{loss:.8f} {norm:.7f}\n" for loss, norm in zip(losses, norms, strict=True))
            if not args.program:
                continue
            got = by_program(args.program, base, adapter, str(lines), scratch)
            apart = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in ((got[0], losses), (got[1], norms))]
            expected = logits_of(trained)
            apart += [(x - y).abs().max().item() for x, y in ((got[2], expected), (got[3], got[2]))]
            print(f"{form}: {compare_trl.STEPS} steps, losses {losses[0]:.4f} to {losses[-1]:.4f}; largest "
                  f"differences: loss {apart[0]:.1e}, norm {apart[1]:.1e}, logits of the saved adapter {apart[2]:.1e}, "
                  f"of the merged model {apart[3]:.1e}")
            differs |= any(a > most for a, most in zip(apart, (1e-5, 1e-4, 1e-4, 1e-5), strict=True))
    sys.exit(differs)


if __name__ == "__main__":
    main()
