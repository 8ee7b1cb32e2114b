"""TRL's trainers, taking samples in their order and keeping the loss of each step, for what compares with them."""
from torch.utils.data import SequentialSampler


def in_order(trainer):
    class Recording(trainer):
        def _get_train_sampler(self, *_):
            return SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            result = super().compute_loss(*args, **kwargs)
            self.losses.append((result[0] if isinstance(result, tuple) else result).item())
            return result
    return Recording
