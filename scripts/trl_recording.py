"""TRL's trainers, taking samples in their order and keeping the loss of each step, and the options of what compares with them."""
import argparse

import torch
import transformers
from torch.utils.data import SequentialSampler


def arguments(doc, **others):
    """What the command line says: --program, --keep, and others by name.  Libraries then say little, and one thread computes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--keep")
    for name, settings in others.items():
        parser.add_argument(f"--{name}", **settings)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # which such models are fastest with
    return args


def in_order(trainer):
    class Recording(trainer):
        def _get_train_sampler(self, *_):
            return SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            result = super().compute_loss(*args, **kwargs)
            self.losses.append((result[0] if isinstance(result, tuple) else result).item())
            return result
    return Recording
