#!/usr/bin/env python3
"""Makes testdata/optim/steps.txt: three steps of AdamW, SGD and Muon in PyTorch, in float64.

AdamW and SGD are torch.optim's.  torch.optim.Muon iterates in bfloat16, so Muon is computed here from
its formula in float64 (momentum as an average, decoupled decay, Newton-Schulz with the coefficients of
Emerging-Optimizers, one case with queries, keys and values apart), and the script first checks the
formula's "simple" form against torch.optim.Muon to what bfloat16 allows.

Each line is `NAME: numbers`.  Needs torch >= 2.9 from PyPI.
    scripts/make-optimizer-goldens.py > testdata/optim/steps.txt
"""
import torch

torch.manual_seed(7)
LR, DECAY, STEPS = 0.02, 0.1, 3
COEFFICIENTS = {
    "simple": [(3.4445, -4.7750, 2.0315)],
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
    "polar_express": [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250),
                      (3.2856, -2.4153, 0.4853), (2.2779, -1.6198, 0.3985), (1.8726, -1.2307, 0.3585),
                      (1.8564, -1.2132, 0.3568), (1.8750, -1.2500, 0.3750)],
    "aol": [(4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254),
            (2.7215, -3.0494, 1.3169)],
}


def orthogonal(matrix, coefficient_type, steps):
    transposed = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if transposed else matrix
    x = x / x.norm().clamp_min(1e-15)
    sets = COEFFICIENTS[coefficient_type]
    for i in range(steps):
        last = coefficient_type == "polar_express"
        a, b, c = sets[min(i, len(sets) - 1) if last else i % len(sets)]
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if transposed else x


def scale(out, inner, mode):
    return {"spectral": max(out, inner), "shape_scaling": max(1, out / inner),
            "unit_rms_norm": out / inner}[mode] ** 0.5


def muon(p, gradients, momentum=0.9, nesterov=False, coefficient_type="quintic", steps=5, mode="spectral",
         extra=1.0, parts=None):
    p, m = p.clone(), torch.zeros_like(p)
    for g in gradients:
        p -= LR * DECAY * p
        m += (1 - momentum) * (g - m)
        u = g + momentum * (m - g) if nesterov else m
        if parts is None:
            u = orthogonal(u, coefficient_type, steps) * scale(*u.shape, mode)
        else:  # rows in groups of parts
            split = torch.split(u.view(-1, sum(parts), u.shape[1]), parts, dim=1)
            done = [(orthogonal(x.reshape(-1, u.shape[1]), coefficient_type, steps)
                     * scale(x.shape[0] * x.shape[1], u.shape[1], mode)).view(x.shape) for x in split]
            u = torch.cat(done, dim=1).view(u.shape)
        p -= LR * extra * u
    return p


def in_torch(make, p, gradients):
    weight = torch.nn.Parameter(p.clone())
    optimizer = make([weight])
    for g in gradients:
        weight.grad = g.clone()
        optimizer.step()
    return weight.detach()


def show(name, tensor):
    print(f"{name}: {' '.join(f'{x:.17g}' for x in tensor.flatten().tolist())}")


def case(name, shape, run):
    p = torch.randn(shape, dtype=torch.float64)
    gradients = [torch.randn(shape, dtype=torch.float64) for _ in range(STEPS)]
    show(name + ".start", p)
    for i, g in enumerate(gradients):
        show(f"{name}.gradient{i}", g)
    show(name + ".end", run(p, gradients))


def check_formula():
    p = torch.randn(6, 4, dtype=torch.float64)
    gradients = [torch.randn(6, 4, dtype=torch.float64) for _ in range(STEPS)]
    theirs = in_torch(lambda w: torch.optim.Muon(w, lr=LR, weight_decay=DECAY, momentum=0.9, nesterov=True),
                      p, gradients)
    ours = muon(p, gradients, nesterov=True, coefficient_type="simple", mode="shape_scaling")
    assert (theirs - ours).abs().max() < 2e-3, (theirs - ours).abs().max()


check_formula()
print(f"# scripts/make-optimizer-goldens.py, torch {torch.__version__}, seed 7, lr {LR}, decay {DECAY}")
case("adam", (3, 4), lambda p, g: in_torch(
    lambda w: torch.optim.AdamW(w, lr=LR, weight_decay=DECAY, betas=(0.9, 0.95), eps=1e-8), p, g))
case("sgd", (3, 4), lambda p, g: in_torch(
    lambda w: torch.optim.SGD(w, lr=LR, weight_decay=DECAY, momentum=0.9), p, g))
case("muon_wide", (4, 6), muon)
case("muon_tall", (6, 4), lambda p, g: muon(p, g, nesterov=True, mode="shape_scaling", extra=0.2))
case("muon_unit", (5, 3), lambda p, g: muon(p, g, coefficient_type="simple", steps=7, mode="unit_rms_norm"))
case("muon_polar", (4, 6), lambda p, g: muon(p, g, coefficient_type="polar_express", steps=9))
case("muon_aol", (4, 6), lambda p, g: muon(p, g, coefficient_type="aol", steps=4))
case("muon_qkv", (16, 6), lambda p, g: muon(p, g, parts=[4, 2, 2]))
