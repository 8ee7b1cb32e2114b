"""Other releases of Megatron-Core than the installed 0.12.1, each in a folder of its own, on a machine without a GPU.

MEGATRON_RELEASES/RELEASE is what `pip install --no-deps --target MEGATRON_RELEASES/RELEASE megatron-core==RELEASE` makes.
"""
import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import os
import sys
import types

import megatron_core
import torch  # noqa: E402

INSTALLED = "0.12.1"


def has(release):
    return release == INSTALLED or os.path.isdir(f"{os.environ.get('MEGATRON_RELEASES', '')}/{release}")


def minor(release):
    return int(release.split(".")[1])


class Norm:
    """What the model's settings ask for, of PyTorch's."""

    def __new__(cls, config, hidden_size, eps=1e-5, **_):
        return (torch.nn.RMSNorm if config.normalization == "RMSNorm" else torch.nn.LayerNorm)(hidden_size, eps)


def pretend(*names):
    """Modules whose every name is a class, for imports of what is not used."""
    class Anything(types.ModuleType):
        __path__ = ()

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return sys.modules.get(f"{self.__name__}.{name}") or type(name, (torch.nn.Module,), {})

    for name in names:
        sys.modules[name] = Anything(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)


def pretend_apex_and_engine():
    """Up to 0.9.0 the distributed optimizer wants Apex's or Transformer Engine's Adam, up to 0.7.0 also the model the latter."""
    engine = "transformer_engine"
    pretend("amp_C", "apex", "apex.multi_tensor_apply", "apex.optimizers", engine, f"{engine}.pytorch", f"{engine}.common",
            f"{engine}.common.recipe", f"{engine}.pytorch.attention", f"{engine}.pytorch.cpu_offload",
            f"{engine}.pytorch.distributed")
    sys.modules["apex.optimizers"].FusedAdam = torch.optim.AdamW
    sys.modules["apex.optimizers"].FusedSGD = torch.optim.SGD
    sys.modules[f"{engine}.pytorch.cpu_offload"].get_cpu_offload_context = lambda *_: (contextlib.nullcontext(), lambda x: x)
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "1.6.0" if name == "transformer-engine" else version(name)


def as_older_torch():
    """Where PyTorch asks for more than these releases give, or does what they do, too."""
    from megatron.core.dist_checkpointing.strategies import filesystem_async, torch as of_torch
    from torch.distributed.checkpoint import filesystem

    write_item = filesystem._write_item
    filesystem_async._write_item = lambda *given: write_item(filesystem._StorageWriterTransforms(), *given)
    of_torch.MCoreSavePlanner._add_non_coordinator_iobytes_request = lambda *_: None


def start(release):
    """Imports Megatron-Core."""
    if release != INSTALLED:
        sys.path.insert(0, f"{os.environ['MEGATRON_RELEASES']}/{release}")
    if minor(release) < 10:
        pretend_apex_and_engine()
    if minor(release) < 8:
        importlib.import_module("megatron.core").__version__ = release  # which it does not say
    core = megatron_core.import_megatron(release)
    if minor(release) < 11:
        from megatron.core.models.gpt import gpt_layer_specs
        from megatron.core.transformer import transformer_block

        as_older_torch()
        gpt_layer_specs.LNImpl = gpt_layer_specs.FusedLayerNorm = Norm
        vars(gpt_layer_specs).update(  # of which 0.10.0 makes experts of either specification
            TEColumnParallelGroupedLinear=None, TEColumnParallelLinear=core.tensor_parallel.ColumnParallelLinear,
            TERowParallelLinear=core.tensor_parallel.RowParallelLinear)
        transformer_block.LayerNormImpl = transformer_block.TENorm = Norm
    return core
