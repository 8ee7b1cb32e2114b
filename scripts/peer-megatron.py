#!/usr/bin/env python3
"""Milliseconds of a training step of megatron-core itself on one GPU, for scripts/bench-gpu.py --megatron.

A GPT of the local spec in bf16, with megatron-core's own schedule, data-parallel wrapper (fp32 gradients),
clipping and optimizer (fp32 masters), Megatron-LM's default settings and its fused cross entropy.  What needs
Transformer Engine or Apex is missing: attention is two products and a softmax with the scores in memory, Adam is
PyTorch's.  Where activations don't fit, attention is computed again in the backward pass, and "recompute" says so.

Prints a line of JSON.  Needs from PyPI: megatron-core 0.12.1 (its files suffice, without its dataset helpers), torch.
Run:  scripts/peer-megatron.py [--layers 24] [--hidden 2048] ... [--mbs 4] [--micro-batches 1] [--steps 30]
"""
import argparse
import gc
import json
import statistics
import time
import warnings

warnings.filterwarnings("ignore")
import torch  # noqa: E402


def make_model(args, recompute):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.module import Float16Module

    config = TransformerConfig(
        num_layers=args.layers, hidden_size=args.hidden, num_attention_heads=args.heads, bf16=True,
        params_dtype=torch.bfloat16, hidden_dropout=0, attention_dropout=0, attention_softmax_in_fp32=False,
        bias_activation_fusion=True, bias_dropout_fusion=True, cross_entropy_loss_fusion=True,
        recompute_granularity=recompute)
    model = GPTModel(config, get_gpt_layer_local_spec(), args.vocab, args.seq, share_embeddings_and_output_weights=True)
    sharing = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    wrapped = DistributedDataParallel(config, sharing, Float16Module(config, model.cuda()))
    config.no_sync_func, config.finalize_model_grads_func = wrapped.no_sync, finalize_model_grads
    return wrapped


def measure(args, recompute):
    """Median milliseconds of a step, and the losses of the first and the last."""
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func

    model = make_model(args, recompute)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-4, min_lr=1e-4, bf16=True, params_dtype=torch.bfloat16,
                        adam_beta1=0.9, adam_beta2=0.95, weight_decay=0.1, clip_grad=1.0),
        [model], use_gloo_process_groups=False)
    ids = torch.randint(args.vocab, (args.micro_batches, args.mbs, args.seq + 1), device="cuda")
    positions = torch.arange(args.seq, device="cuda").expand(args.mbs, -1)

    def forward_step(parts, model):
        part = next(parts)
        losses = model(part[:, :-1].contiguous(), positions, None, labels=part[:, 1:].contiguous())
        return losses, mean

    def mean(losses):
        loss = losses.float().mean()
        return loss, loss.detach().clone()  # the schedule divides in place

    times, seen = [], []
    for _ in range(args.steps + 5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=forward_step, data_iterator=iter(ids), model=[model], num_microbatches=len(ids),
            seq_length=args.seq, micro_batch_size=args.mbs)
        updated, _, _ = optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        assert updated
        seen.append(sum(losses).item() / len(losses))
    return {"ms": 1000 * statistics.median(times[5:]), "losses": [seen[0], seen[-1]]}


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 131072, "seq": 4096, "mbs": 4,
                        "micro-batches": 1, "steps": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    import megatron.core
    from megatron.core import parallel_state, tensor_parallel

    assert megatron.core.__version__ == "0.12.1", megatron.core.__version__
    store = torch.distributed.TCPStore("127.0.0.1", 0, world_size=1, is_master=True)
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    try:
        recompute, result = None, measure(args, None)
    except torch.OutOfMemoryError:
        recompute = "selective"
    if recompute:  # when what the first attempt held is no longer in reach
        gc.collect()
        torch.cuda.empty_cache()
        result = measure(args, recompute)
    result |= {"version": megatron.core.__version__, "spec": "local", "recompute": recompute}
    print(json.dumps(result))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
