#!/usr/bin/env python3
"""Compare the folders of mt-convert --quantize with their definitions, and with what transformers reads of them.

Small random models of several families are quantized in each format.  Every tensor of the folder must be, to the last bit, what
NumPy makes of the weights by the definition: of int8_sq, int4_awq and w4a8_awq, whose weights a text scales first, of the weights times
the scales that its norms show, which must be those of a search by NumPy over what transformers' layers read of the text; scales of
inputs must be those of what they read.  mt-convert must make of the folder the numbers that these stand for; and transformers must
load it, on a CPU, and compute logits with it that are those of the same weights dequantized, to the bit.  ModelOpt's own exporter must
make the same folder of a model, where --modelopt.

  --program PATH   the mt-convert to try
  --form NAME      of these alone; may be given several times
  --modelopt       compare with nvidia-modelopt alone, which must be there

Needs from PyPI: accelerate, compressed-tensors, ml_dtypes, numpy, safetensors, torch, transformers (tried with 1.15.0, 0.20.1, 0.6.0,
2.4.6, 0.8.0, 2.15.0, 5.24.0); nvidia-modelopt (0.47.0).
Run:  scripts/compare-quantize.py --program build/release/cmd/mt-convert
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import tokenizers
import torch
import transformers
from compressed_tensors.quantization import disable_quantization
from safetensors.torch import load_file, save_file

HIDDEN, FFN, VOCAB = 256, 384, 64
SIZES = {"hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": 1,
         "eos_token_id": 2}
KINDS = {"llama": {"tie_word_embeddings": False}, "qwen2": {"tie_word_embeddings": True}, "qwen3": {"head_dim": 32},
         "granite": {}, "phi3": {}, "mistral": {"hidden_size": 192, "intermediate_size": 320},
         "gemma": {"num_key_value_heads": 4, "head_dim": 64}}
# What is asked of mt-convert beside the format: a text; ModelOpt's folder.
FORMS = {"fp8": ("fp8",), "fp8_block": ("fp8_block",), "fp8_static": ("fp8", "calib"), "int8_sq": ("int8_sq", "calib"),
         "int4_awq": ("int4_awq", "calib"), "w4a8_awq": ("w4a8_awq", "calib"), "nvfp4": ("nvfp4",), "nvfp4_static": ("nvfp4", "calib"),
         "mxfp4": ("mxfp4",), "modelopt_fp8": ("fp8", "calib", "modelopt"), "modelopt_nvfp4": ("nvfp4", "calib", "modelopt")}
SMOOTHED = ("int8_sq", "int4_awq", "w4a8_awq")
# Who has one scale together: of these names.
TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
TEXT = "".join(chr(32 + (i * i + i // 7) % VOCAB) for i in range(4000))


def write_tokenizer(folder):
    """A token for each of the first characters from the blank on."""
    tokens = {chr(32 + i): i for i in range(VOCAB)}
    tokenizers.Tokenizer(tokenizers.models.BPE(vocab=tokens, merges=[])).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def is_linear(key):
    return key.endswith("_proj.weight")


def e4m3(numbers):
    return np.asarray(numbers, np.float32).astype(ml_dtypes.float8_e4m3fn)


def whole(scale):
    return np.where(scale > 0, np.maximum(scale, np.finfo(np.float32).tiny), np.float32(1)).astype(np.float32)


def scale_type(kind):
    return ml_dtypes.bfloat16 if kind == ml_dtypes.bfloat16 else np.float32


def rounded(scale, kind):
    return whole(scale).astype(scale_type(kind)).astype(np.float32)


def spread(scale, size):
    return scale.repeat(size, -1)


def grouped(weight, size):
    return np.abs(weight.reshape(weight.shape[0], -1, size)).max(-1)


def pairs(numbers):
    """Codes of E2M1, two in a byte, and their numbers."""
    values = numbers.clip(-6, 6).astype(ml_dtypes.float4_e2m1fn)
    codes = values.view(np.uint8) & 15
    return codes[:, ::2] | codes[:, 1::2] << 4, values.astype(np.float32)


# Each makes the tensors of a weight, less its name, and the numbers that they stand for.  `ranges` has the largest |w| of those that
# are computed with together, and the largest |x| of what they read.


def fp8(weight, kind, _):
    scale = rounded(np.abs(weight).max(1, keepdims=True) / np.float32(448), kind)
    codes = e4m3(weight / scale)
    return {"weight": codes, "weight_scale": scale.astype(scale_type(kind))}, codes.astype(np.float32) * scale


def fp8_block(weight, _, __):
    rows, columns = ((n + 127) // 128 for n in weight.shape)
    scale = whole(np.array([[np.abs(weight[r * 128:r * 128 + 128, c * 128:c * 128 + 128]).max() / np.float32(448)
                             for c in range(columns)] for r in range(rows)], np.float32))
    wide = scale.repeat(128, 0).repeat(128, 1)[:weight.shape[0], :weight.shape[1]]
    codes = e4m3(weight / wide)
    return {"weight": codes, "weight_scale_inv": scale}, codes.astype(np.float32) * wide


def fp8_static(weight, kind, ranges):
    scale, inputs = (rounded(np.float32([x]) / np.float32(448), kind) for x in ranges)
    codes = e4m3(weight / scale)
    return ({"weight": codes, "weight_scale": scale.astype(scale_type(kind)), "input_scale": inputs.astype(scale_type(kind))},
            codes.astype(np.float32) * scale)


def modelopt_fp8(weight, _, ranges):
    parts, numbers = fp8_static(weight, np.float32, ranges)
    return {key: value.reshape(()) if "scale" in key else value for key, value in parts.items()}, numbers


def int8_sq(weight, kind, _):
    scale = rounded(np.abs(weight).max(1, keepdims=True) / np.float32(127.5), kind)
    codes = np.rint(weight / scale).clip(-128, 127).astype(np.int8)
    return {"weight": codes, "weight_scale": scale.astype(scale_type(kind))}, codes * scale


def int4_awq(weight, kind, _):
    scale = rounded(grouped(weight, 128) / np.float32(7.5), kind)
    codes = np.rint(weight / spread(scale, 128)).clip(-8, 7)
    nibbles = (codes + 8).astype(np.uint32).reshape(weight.shape[0], -1, 8) << (4 * np.arange(8, dtype=np.uint32))
    return ({"weight_packed": nibbles.sum(-1, dtype=np.uint32).view(np.int32), "weight_scale": scale.astype(scale_type(kind)),
             "weight_shape": np.array(weight.shape, np.int64)}, codes.astype(np.float32) * spread(scale, 128))


def nvfp4(weight, _, ranges, inputs=False):
    one = np.float32([2688]) / np.float32(ranges[:1])
    scale = e4m3(one * (grouped(weight, 16) / np.float32(6))).astype(np.float32)
    scale = np.where(scale == 0, np.float32(.125), scale)
    packed, numbers = pairs(weight / spread(scale / one, 16))
    parts = {"weight_packed": packed, "weight_scale": e4m3(scale), "weight_global_scale": one}
    if inputs:
        parts["input_global_scale"] = np.float32([2688]) / np.float32(ranges[1:])
    return parts, numbers * spread(scale / one, 16)


def nvfp4_static(weight, kind, ranges):
    return nvfp4(weight, kind, ranges, True)


def modelopt_nvfp4(weight, _, ranges):
    second, inputs = (np.float32(x) / np.float32(2688) for x in ranges)
    scale = grouped(weight, 16) / (np.float32(6) * second)
    scale = e4m3(np.where(scale == 0, np.float32(1), scale.clip(2 ** -9, 448))).astype(np.float32)
    packed, numbers = pairs(weight / spread(scale * second, 16))
    return ({"weight": packed, "weight_scale": e4m3(scale), "weight_scale_2": np.float32(second), "input_scale": np.float32(inputs)},
            numbers * spread(scale * second, 16))


def mxfp4(weight, _, __):
    largest = grouped(weight, 32)
    exponent = ((largest.view(np.uint32) + (1 << 21)) >> 23).astype(np.int32) - 2
    exponent = exponent.clip(0)
    scale = np.exp2(exponent - 127).astype(np.float32)
    packed, numbers = pairs(weight / spread(scale, 32))
    return {"weight_packed": packed, "weight_scale": exponent.astype(np.uint8)}, numbers * spread(scale, 32)


TWINS = {"fp8": fp8, "fp8_block": fp8_block, "fp8_static": fp8_static, "int8_sq": int8_sq, "int4_awq": int4_awq, "w4a8_awq": int4_awq,
         "nvfp4": nvfp4, "nvfp4_static": nvfp4_static, "mxfp4": mxfp4, "modelopt_fp8": modelopt_fp8, "modelopt_nvfp4": modelopt_nvfp4}


def bits(tensor):
    return torch.as_tensor(tensor).reshape(-1).view(torch.uint8) if isinstance(tensor, torch.Tensor) else \
        torch.from_numpy(np.atleast_1d(tensor).view(np.uint8)).flatten()


def together(weights, key):
    """The names of those that have a scale with one."""
    last = key.split(".")[-2]
    for names in TOGETHER:
        if last in names:
            return [key.replace(last, name) for name in names if key.replace(last, name) in weights]
    return [key]


def twins(weights, form, dtype, reads):
    """The tensors of a folder, the weights that they stand for, and these before they are rounded to `dtype`."""
    kind = {torch.bfloat16: ml_dtypes.bfloat16, torch.float32: np.float32, torch.float16: np.float16}[dtype]
    stored, read, exact = {}, {}, {}
    for key, tensor in weights.items():
        if is_linear(key):
            largest = max(weights[name].float().abs().max().item() for name in together(weights, key))
            seen = np.abs(reads[key.removesuffix(".weight")]).max() if reads else 0
            parts, numbers = TWINS[form](tensor.float().numpy(), kind, (largest, seen))
            stored.update({key.removesuffix("weight") + name: part for name, part in parts.items()})
            exact[key] = torch.from_numpy(numbers.astype(np.float32))
            read[key] = exact[key].to(dtype)
        else:
            stored[key] = read[key] = tensor
    return stored, read, exact


def inputs_of(folder):
    """What each linear layer of a model reads of TEXT, in float32."""
    model, reads = load(folder, dtype=torch.float32), {}
    for name, module in model.named_modules():
        if name.endswith("_proj"):
            module.register_forward_hook(lambda _, x, __, name=name: reads.setdefault(name, []).append(x[0].flatten(0, -2).numpy()))
    length = SIZES["max_position_embeddings"]
    ids = torch.tensor([ord(c) - 32 for c in TEXT[:len(TEXT) // length * length]]).reshape(-1, 1, length)
    with torch.no_grad():
        for sequence in ids:
            model(sequence)
    return {name: np.stack(seen) for name, seen in reads.items()}


def smooth_search(weight, seen):
    a, w = np.abs(seen).max((0, 1)), np.abs(weight).max(0)
    return np.where((a > 0) & (w > 0), np.sqrt(a / np.where(w > 0, w, 1)).clip(1e-4, 1e4), 1)


def awq_search(weight, seen):
    """By all of the text where mt takes 256 tokens: of the same that each sequence has."""
    count, length, channels = seen.shape
    a = np.abs(seen).mean((0, 1), dtype=np.float64)
    w = (np.abs(weight) / spread(grouped(weight, 128), 128)).mean(0, dtype=np.float64)
    each = (256 + count - 1) // count
    step = length // each
    some = seen[:, step - 1::step].reshape(-1, channels)[:256]
    best = (np.inf, None)
    for tenths in range(11):
        s = (a ** (tenths / 10) / w ** (1 - tenths / 10)).clip(1e-4, 1e4)
        s = (s / np.sqrt(s.min() * s.max())).astype(np.float32)
        off = int4_awq(weight * s, np.float32, None)[1] / s - weight
        best = min(best, ((some.astype(np.float64) @ off.T.astype(np.float64)).__pow__(2).sum(), tenths, s), key=lambda x: x[0])
    return best[2]


def numbers_of(found, dtype):
    """The weights that the tensors of a folder of int8_sq, int4_awq or w4a8_awq stand for."""
    read = {key: tensor for key, tensor in found.items() if "_proj." not in key or key.endswith(".bias")}
    for key, codes in found.items():
        name = key.removesuffix("_packed")
        if key.endswith("_proj.weight"):
            read[name] = (codes.float() * found[name + "_scale"].float()).to(dtype)
        if key.endswith(".weight_packed"):
            nibbles = (codes.numpy().view(np.uint32)[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).astype(np.float32) - 8
            scale = spread(found[name + "_scale"].float().numpy(), 128)
            read[name] = torch.from_numpy(nibbles.reshape(scale.shape) * scale).to(dtype)
            assert found[name + "_shape"].tolist() == list(scale.shape)
    return read


def unlike_search(weights, found, read, form, reads):
    """What a Llama's folder has not as a search by NumPy has it: the scales that norms show, and what is rounded by them."""
    search = smooth_search if form == "int8_sq" else awq_search
    for layer in range(SIZES["num_hidden_layers"]):
        for norm, names in (("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
                            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj"))):
            at = f"model.layers.{layer}."
            shown = (weights[f"{at}{norm}.weight"].double() / found[f"{at}{norm}.weight"].double()).numpy()
            scale = search(np.concatenate([weights[f"{at}{name}.weight"].numpy() for name in names]), reads[at + names[0]])
            if np.abs(shown / scale - 1).max() > 1e-4:
                yield f"{at}{norm} {np.abs(shown / scale - 1).max():.2g}"
            name = f"{at}{names[0]}.weight"  # whose rows nothing multiplies
            off = np.abs(weights[name].numpy() * shown - read[name].numpy())
            step = found[name + "_scale"].numpy()
            if (off > .5001 * spread(step, off.shape[1] // step.shape[1])).any():
                yield name


def differing(found, expected):
    """Names of tensors that are not the same; of inputs' scales, whose sums another order makes, that are not nearly so."""
    def same(key):
        a, b = found[key], torch.as_tensor(np.asarray(expected[key]).astype(np.float32)) if "input" in key and "scale" in key else expected[key]
        if "input" in key and "scale" in key:
            return a.shape == b.shape and torch.allclose(a.float(), b, rtol=1e-5 if a.dtype == torch.float32 else 1 / 128)
        return torch.equal(bits(a), bits(b))
    wrong = [key for key in expected if key not in found or not same(key)]
    return wrong + [key for key in found if key not in expected]


def load(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", **options).eval()


def unlike_cost(program, form, folder, original, again):
    """What mt-convert tells otherwise of what a folder costs than PyTorch finds of both models, on four sequences of 48 tokens."""
    ids = torch.tensor([ord(c) - 32 for c in TEXT[:192]]).reshape(4, 48)
    summary = subprocess.run([program, "--quiet", "--json", "--saver", "hf", "--calib-size", "4", "--calib-seq", "48", "--cost-text",
                              str(folder / "text"), "--quantize", form, str(original), str(folder / "costs")],
                             check=True, capture_output=True, text=True)
    cost = json.loads(summary.stdout)["cost"]
    before, after = (load(path, dtype=torch.float32) for path in (original, again))
    reads = {}
    for name, module in before.named_modules():
        if name.endswith("_proj"):
            module.register_forward_hook(lambda _, x, __, name=name: reads.update({name: x[0].flatten(0, -2).double()}))
    with torch.no_grad():
        p, q = (torch.log_softmax(model(ids).logits.double()[:, :-1], -1) for model in (before, after))
    losses = [-x.gather(-1, ids[:, 1:, None]).mean() for x in (p, q)]
    told = {"perplexity_before": losses[0].exp(), "perplexity": losses[1].exp(), "divergence": (p.exp() * (p - q)).sum(-1).mean(),
            "same_likeliest": (p.argmax(-1) == q.argmax(-1)).double().mean()}
    weights = [{name: module.weight.detach().double() for name, module in model.named_modules() if name in reads} for model in (before, after)]
    rows = {"linear_qkv": TOGETHER[0], "linear_fc1": TOGETHER[1], "linear_proj": ("o_proj",), "linear_fc2": ("down_proj",)}
    for layer in cost["layers"]:
        number, module = layer["name"].split(".")[2], layer["name"].split(".")[-2]
        names = [name for name in reads if name.split(".")[2] == number and name.split(".")[-1] in rows[module]]
        made_of, off = (torch.cat([reads[name] @ one(name).T for name in names], -1).norm()
                        for one in (lambda name: weights[0][name], lambda name: weights[0][name] - weights[1][name]))
        told[layer["name"]] = off / made_of
    cost.update({layer["name"]: layer["error"] for layer in cost.pop("layers")})
    if cost.pop("tokens") != 4 * 47 or set(cost) != set(told):
        yield f"cost of {sorted(cost)}"
    elif far := {key: (cost[key], told[key].item()) for key in told if abs(cost[key] - told[key].item()) > 1e-4 * abs(told[key].item()) + 1e-7}:
        yield f"cost {far}"


def make_model(kind, dtype):
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **KINDS[kind]})
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * .05)
    return model


def compare(program, kind, form, dtype, folder):
    """What is wrong, a line each."""
    model = make_model(kind, dtype)
    original, made, again = folder / "original", folder / "made", folder / "again"
    model.save_pretrained(original)
    convert = lambda *arguments: subprocess.run([program, "--quiet", "--verify", "--saver", "hf", *map(str, arguments)], check=True)
    (folder / "text").write_text(TEXT)
    write_tokenizer(original)
    name, *more = FORMS[form]
    convert("--quantize", name, *(["--calib", folder / "text"] if "calib" in more else []),
            *(["--quantize-layout", "modelopt"] if "modelopt" in more else []), original, made)
    convert(made, again)
    if kind == "llama" and dtype == torch.float32 and not more:
        yield from unlike_cost(program, name, folder, original, again)
    weights, found = load_file(original / "model.safetensors"), load_file(made / "model.safetensors")
    if form in SMOOTHED:
        read = numbers_of(found, dtype)
        if kind == "llama" and dtype == torch.float32:
            yield from unlike_search(weights, found, read, form, inputs_of(original))
    else:
        stored, read, exact = twins(weights, form, dtype, inputs_of(original) if more else None)
        if wrong := differing(found, stored):
            yield f"stored {wrong[:3]} ({len(wrong)})"
    if wrong := differing(load_file(again / "model.safetensors"), read):
        yield f"read {wrong[:3]} ({len(wrong)})"
    if form == "fp8_block" and kind == "mistral":
        return  # transformers dequantizes whole blocks alone
    if "modelopt" in more:
        described = json.loads((made / "hf_quant_config.json").read_text())["quantization"]["quant_algo"]
        if described != {"fp8": "FP8", "nvfp4": "NVFP4"}[name]:
            yield f"hf_quant_config.json says {described}"
        return  # transformers reads no such folder
    # Weights alone: without a GPU there are no products of blocks, and inputs are not to be rounded.
    numbers = (transformers.FineGrainedFP8Config(dequantize=True) if form == "fp8_block" else
               transformers.CompressedTensorsConfig(dequantize=True))
    tokens = torch.arange(24).reshape(2, 12) * 5 % VOCAB
    with torch.no_grad():
        models = [load(path, dtype=dtype, **more).apply(disable_quantization)
                  for path, more in ((made, {"quantization_config": numbers}), (again, {}))]
        if name == "nvfp4":  # which compressed-tensors dequantizes in bf16
            for key, weight in models[1].named_parameters():
                weight.data = exact[key].bfloat16().to(dtype) if is_linear(key) else weight
        theirs, ours = (one(tokens).logits.float() for one in models)
    if not torch.equal(theirs, ours):
        yield f"logits differ by {((theirs - ours).norm() / ours.norm()).item():.3g}"


def compare_modelopt(program, form, folder):
    """What ModelOpt's exporter makes otherwise of a Llama in float32, a line each; and what mt-convert reads of its folder.

    Of fp8, where ModelOpt leaves it to who computes with q, k and v together, the scale of them is the largest of its three."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    original, ours, theirs, read, again = (folder / name for name in ("original", "ours", "theirs", "read", "again"))
    model = make_model("llama", torch.float32)
    model.save_pretrained(original)
    write_tokenizer(original)
    (folder / "text").write_text(TEXT)
    convert = lambda *arguments: subprocess.run([program, "--quiet", "--verify", "--saver", "hf", *map(str, arguments)], check=True)
    convert("--quantize", form, "--quantize-layout", "modelopt", "--calib", folder / "text", original, ours)
    length = SIZES["max_position_embeddings"]
    ids = torch.tensor([ord(c) - 32 for c in TEXT[:len(TEXT) // length * length]]).reshape(-1, 1, length)
    quantized = mtq.quantize(model, {"fp8": mtq.FP8_DEFAULT_CFG, "nvfp4": mtq.NVFP4_DEFAULT_CFG}[form],
                             lambda each: [each(sequence) for sequence in ids])
    with torch.inference_mode():
        export_hf_checkpoint(quantized, dtype=torch.float32, export_dir=theirs)
    write_tokenizer(theirs)
    found, expected = (load_file(path / "model.safetensors") for path in (ours, theirs))
    if form == "fp8":
        weights, largest = load_file(original / "model.safetensors"), {}
        for key in filter(is_linear, weights):
            largest[key] = max(expected[f"{name}_scale"] for name in together(weights, key))
        for key, scale in largest.items():
            if expected[f"{key}_scale"] != scale:
                expected[f"{key}_scale"], expected[key] = scale, torch.from_numpy(e4m3(weights[key].numpy() / scale.numpy()).view(np.uint8))
        save_file({key: (tensor.view(torch.float8_e4m3fn) if tensor.dtype == torch.uint8 else tensor).clone() for key, tensor in expected.items()},
                  theirs / "model.safetensors")
    if wrong := differing(found, expected):
        yield f"stored {wrong[:3]} ({len(wrong)})"
    convert(theirs, read)
    convert(ours, again)
    if wrong := differing(*(load_file(path / "model.safetensors") for path in (read, again))):
        yield f"read {wrong[:3]} ({len(wrong)})"
    said = [json.loads((path / "hf_quant_config.json").read_text())["quantization"] for path in (ours, theirs)]
    if not set(said[0].pop("exclude_modules")) <= set(said[1].pop("exclude_modules")) or said[0] != said[1]:
        yield f"hf_quant_config.json: {said[0]} for {said[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--modelopt", action="store_true")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failures = 0
    for form in ("fp8", "nvfp4") if options.modelopt else ():
        with tempfile.TemporaryDirectory() as folder:
            wrong = list(compare_modelopt(program, form, pathlib.Path(folder)))
        print(f"{form:14s} {'modelopt':18s} {'equal' if not wrong else 'DIFFERS: ' + '; '.join(wrong)}")
        failures += bool(wrong)
    if options.modelopt:
        return failures > 0
    for form in options.form or FORMS:
        for kind in KINDS:
            if form in ("int4_awq", "w4a8_awq") and kind == "mistral":
                continue  # groups do not divide its columns
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                with tempfile.TemporaryDirectory() as folder:
                    wrong = list(compare(program, kind, form, dtype, pathlib.Path(folder)))
                print(f"{form:14s} {kind:8s} {str(dtype)[6:]:9s} {'equal' if not wrong else 'DIFFERS: ' + '; '.join(wrong)}")
                failures += bool(wrong)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
