"""What the scripts that compare mt-convert with others share: tiny random models, and how a difference is told."""
import json
import pathlib
import subprocess
import sys
import warnings

import torch
import transformers

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
T = transformers
T.logging.set_verbosity_error()
T.logging.disable_progress_bar()
warnings.filterwarnings("ignore")
VOCAB = len(json.load(open(TESTDATA / "gpt2_bpe/vocab.json")))
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=88, max_position_embeddings=64, bos_token_id=3, eos_token_id=VOCAB - 1)
failures = []


def fail(*words):
    failures.append(words)
    print("  FAILED:", *words)


def run(*command, stdin=None):
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def auto_class(config):
    return T.MegatronBertForPreTraining if config.model_type == "megatron-bert" else T.AutoModelForCausalLM


def build(config, dtype):
    torch.manual_seed(1)
    kind = auto_class(config)
    model = (kind(config) if kind is T.MegatronBertForPreTraining else kind.from_config(config)).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1 if parameter.dim() == 1 and name.endswith("weight") and config.model_type != "nemotron" else 0
            parameter.copy_(centre + torch.randn_like(parameter, dtype=torch.float32) * 0.3)
    return model
