#!/usr/bin/env python3
"""Compares delayed scales in a checkpoint with what Transformer Engine's modules take, in both directions.

Needs from PyPI: torch (tried with 2.15.0), pydantic, and the wheel transformer_engine (tried with 2.20.2), unpacked into TE: of that only
common/recipe/__init__.py is loaded, by its path, since all else wants a GPU.

  scripts/compare-te-state.py check TE CHECKPOINT
      CHECKPOINT is an iteration's folder in torch_dist of a run with --fp8-recipe delayed and --fp8-amax-compute-algo most_recent.  Python
      unpickles each extra state as TransformerEngineBaseModule.set_extra_state() does, and it must fit buffers of the recipe's sizes; its
      scales must be what the newest numbers of its histories give.
  scripts/compare-te-state.py golden TE FOLDER
      Writes what tests/ckpt/te_state_test.cpp reads (testdata/ckpt): FOLDER/te_state.pickle, as get_extra_state() pickles it, and
      FOLDER/te_state.pt, as torch.save had it in version 1.
"""
import argparse
import importlib.util
import io
import pathlib
import pickle
import sys
import types

import torch
import torch.distributed.checkpoint as dcp

RECIPE = "transformer_engine.common.recipe"


def load_recipe(folder):
    """TE's recipes, without the libraries that its package loads."""
    for name in ("transformer_engine", "transformer_engine.common"):
        sys.modules[name] = types.ModuleType(name)
    path = next(pathlib.Path(folder).rglob("common/recipe/__init__.py"))
    spec = importlib.util.spec_from_file_location(RECIPE, path)
    module = sys.modules[RECIPE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def golden(recipe, folder):
    steps = 3
    state = {"scale_fwd": torch.tensor([64, 112, 1], dtype=torch.float32), "scale_bwd": torch.tensor([3584, 1], dtype=torch.float32),
             "amax_history_fwd": torch.tensor([[0, 0, 0], [5, 3, 0], [7, 4, 0]], dtype=torch.float32),
             "amax_history_bwd": torch.tensor([[0, 0], [.5, 0], [16, 0]], dtype=torch.float32),
             "extra_fp8_variables": {"fp8_checkpoint": True, "num_gemms": 1, "fp8_max_fwd": 448.0, "fp8_max_bwd": 57344.0}}
    assert state["amax_history_fwd"].shape[0] == steps
    old = dict(state, scale_inv_fwd=1 / state["scale_fwd"], scale_inv_bwd=1 / state["scale_bwd"])
    torch.save(old, folder / "te_state.pt")
    own = recipe.DelayedScaling(margin=0, fp8_format=recipe.Format.HYBRID, amax_history_len=steps, amax_compute_algo="most_recent")
    (folder / "te_state.pickle").write_bytes(pickle.dumps({"recipe": own, **state}))


def extra_states(folder):
    metadata = dcp.FileSystemReader(folder).read_metadata()
    for index, info in metadata.storage_data.items():
        if "_extra_state" in index.fqn:
            with open(folder / info.relative_path, "rb") as file:
                file.seek(info.offset)
                yield index.fqn, torch.load(io.BytesIO(file.read(info.length)), weights_only=True)


def check(recipe, folder):
    filled = empty = 0
    for key, stored in extra_states(folder):
        assert isinstance(stored, list) and len(stored) == 1, key
        if stored[0] is None:
            empty += 1
            continue
        filled += 1
        state = pickle.loads(stored[0].numpy().tobytes())
        own = state["recipe"]
        assert isinstance(own, recipe.DelayedScaling) and own.delayed() and own.amax_compute_algo == "most_recent", key
        products = state["extra_fp8_variables"]["num_gemms"]
        for direction, columns, most in (("fwd", 3, own.fp8_format.value.max_fwd), ("bwd", 2, own.fp8_format.value.max_bwd)):
            scale, history = torch.ones(columns * products), torch.zeros(own.amax_history_len, columns * products)
            scale.copy_(state["scale_" + direction])
            history.copy_(state["amax_history_" + direction])
            assert state["amax_history_" + direction].shape == history.shape and (history[0] == 0).all(), key
            assert state["extra_fp8_variables"]["fp8_max_" + direction] == most, key
            if own.amax_history_len > 1:
                for column in range(columns - 1):
                    newest = history[-1, column]
                    assert newest > 0 and scale[column] == torch.tensor(most, dtype=torch.float32) / newest / 2.0 ** own.margin, (key, direction, column)
    print(f"{filled} extra states of delayed scales, {empty} empty ones")
    return 0 if filled else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["check", "golden"])
    parser.add_argument("te", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    return (golden if options.verb == "golden" else check)(load_recipe(options.te), options.folder)


if __name__ == "__main__":
    sys.exit(main())
