"""Checkpoints in torch_dist that have the distributed optimizer's state in another form than 0.12.1's, and their cases."""
import pathlib
import tempfile

import megatron_releases as releases
import torch
from rank_models import MODELS, PADDED, SCALER, Layout, Sharding, check_moments, draw, layout_flags, run, spawn

OF_0_7, OF_0_10 = Sharding(PADDED, "0.7.0"), Sharding(PADDED, "0.10.0")
OF_0_12, OF_0_16 = Sharding("dp_zero_gather_scatter", releases.INSTALLED), Sharding("dp_reshardable", "0.16.1")
RESHARDABLE = Sharding("fully_reshardable", "0.16.1")
OF_MAIN = Sharding("dp_reshardable", "0.20.0")  # without common.pt; a checkout of its main branch
# Of each model, the type of its weights, layouts, and elements of a bucket.
EVERY = [
    ("gpt2", torch.bfloat16, Layout(2, 2, dp=2), None), ("gpt2", torch.float32, Layout(1, 2, 2, dp=3), None),
    ("gpt2", torch.float16, Layout(2, dp=2), 3000), ("llama", torch.bfloat16, Layout(1, 2, 2, dp=2), 5000),
    ("mixtral", torch.bfloat16, Layout(1, 2, ep=2), None), ("mixtral", torch.float16, Layout(2, 2, 2, ep=2), 3000),
    ("mixtral", torch.float32, Layout(1, dp=2), None), ("mixtral grouped", torch.bfloat16, Layout(1, 2, ep=2), None),
    ("mixtral grouped", torch.float32, Layout(2, dp=2), 4000), ("mixtral gemm", torch.bfloat16, Layout(2, 2, ep=2), None),
    ("mixtral gemm", torch.float16, Layout(1, dp=2), 4000), ("bert", torch.bfloat16, Layout(2, dp=2), None),
    ("t5", torch.bfloat16, Layout(2, dp=2), None), ("t5 1.1", torch.float32, Layout(1, dp=3), 4000),
    ("hybrid", torch.bfloat16, Layout(2, 2, dp=2), None)]
FEWER = [
    ("llama", torch.bfloat16, Layout(2, 2, dp=2), None), ("gpt2", torch.float16, Layout(2, dp=2), 3000),
    ("mixtral", torch.bfloat16, Layout(1, 2, ep=2), None)]
CHUNKS = [("llama", torch.float32, Layout(1, 2, 2, dp=3), 5000), ("mixtral", torch.float16, Layout(2, 2, 2, ep=2), 3000)]
GEMM = [("mixtral gemm", torch.float16, Layout(2, ep=2), None)]
STAGES = [
    ("gpt2", torch.bfloat16, Layout(1, 2, dp=2, stages="Et|tttL"), None),
    ("llama", torch.bfloat16, Layout(2, 2, 2, dp=2, stages="E|tt|t|tL"), 3000)]


CASES = ((OF_0_12, EVERY), (OF_0_16, EVERY + STAGES), (RESHARDABLE, FEWER + GEMM), (OF_MAIN, FEWER), (OF_0_7, FEWER),
         (OF_0_10, FEWER + CHUNKS))


def absent():
    return sorted({sharding.release for sharding, _ in CASES if not releases.has(sharding.release)})


def cases(models):
    """Those of these models, and of releases that are there: (model, type, Sharding, layout)."""
    return [(name, dtype, sharding._replace(size=size), layout) for sharding, own in CASES
            for name, dtype, layout, size in own if name in models and releases.has(sharding.release)]


def save(bin, scratch, config, name, dtype, sharding, layout, *padding):
    draw(config, dtype, f"{scratch}/hf")
    run(f"{bin}/mt-convert", "--quiet", *padding, *layout_flags(name, layout), f"{scratch}/hf", f"{scratch}/weights")
    spawn(name, layout, f"{scratch}/weights/release", f"{scratch}/saved", sharding)
    pathlib.Path(scratch, "saved", sharding.form, "latest_checkpointed_iteration.txt").write_text("7")


def load_again(bin, scratch, name, sharding):
    """In another layout, as fully_reshardable, into which --no-common-pt brings the other forms."""
    name = name.removesuffix(" gemm")
    second = Layout(1, 2, ep=2) if name == "mixtral" else Layout(1, 2)
    flags = ["--no-common-pt"] if sharding.release == OF_MAIN.release else []
    for form, more in (("torch", []), ("torch_dist", flags)):
        run(f"{bin}/mt-convert", "--quiet", "--verify", "--with-optimizer", "--make-vocab-size-divisible-by", "128", *more,
            *layout_flags(name, second, form), f"{scratch}/saved/{sharding.form}", f"{scratch}/new/{form}")
    spawn(name, second, f"{scratch}/new", None, sharding._replace(form=RESHARDABLE.form, size=None))


def check(bin, name, dtype, sharding, layout):
    with tempfile.TemporaryDirectory() as scratch:
        save(bin, scratch, MODELS[name], name, dtype, sharding, layout)
        run(f"{bin}/mt-convert", "--quiet", "--verify", "--with-optimizer", f"{scratch}/saved/{sharding.form}",
            f"{scratch}/core")
        written = f"{scratch}/core/iter_0000007"
        scaler = torch.load(f"{written}/common.pt", weights_only=False)["optimizer"].get("grad_scaler")
        assert scaler == (SCALER if dtype == torch.float16 else None), scaler
        if sharding.form == RESHARDABLE.form or sharding.release == OF_MAIN.release:
            load_again(bin, scratch, name, sharding)
        return check_moments(written)
