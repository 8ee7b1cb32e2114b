// Muon for one matrix: momentum, made nearly orthogonal by Newton and Schulz's iteration, is the
// update (Jordan and others, 2024; the form and coefficients of NVIDIA's Emerging-Optimizers).
//   X = U / max(|U|, 1e-15);  in each step i, with (a, b, c) of the coefficient type:
//     rows <= columns: A = X X^T,  X = a X + (b A + c A^2) X;   else the same of X^T
//   p = (1 - lr decay) p - lr extra_scale_factor scale X
// scale of [out, in]: spectral sqrt(max(out, in)), shape_scaling sqrt(max(1, out / in)),
// unit_rms_norm sqrt(out / in).  The parts of a qkv weight (all queries' rows, all keys', all
// values') are made orthogonal and scaled each by itself.
#pragma once

#include <string>

#include "base/command.h"
#include "kernels/step_record.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

struct MuonOptions {
  double momentum = 0.9;
  bool nesterov = false;
  std::string scale_mode = "spectral", coefficient_type = "quintic";
  std::int64_t num_ns_steps = 5;
  double extra_scale_factor = 1;
  bool split_qkv = true;
  std::string tp_mode = "duplicated", fp32_matmul_prec = "medium", scalar_optimizer = "adam";

  void add_to(CommandLine& cl);
  void complete() const;
};

// Updates `row` from its gradient and `momentum`, both of the row's shape.
void muon_step(const Param& row, Tensor momentum, const MuonOptions& options,
               const StepRecord* record, Arena& scratch, Stream& stream);

// What muon_step() needs of `scratch` for this row.
std::size_t muon_scratch_bytes(const Param& row, DType dtype, const MuonOptions& options);

// Newton and Schulz's iteration on x in place.
void orthogonalize(Tensor x, const MuonOptions& options, Arena& scratch, Stream& stream);

double muon_scale(std::int64_t out, std::int64_t in, const std::string& mode);

}  // namespace mt
