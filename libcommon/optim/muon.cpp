#include "optim/muon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "ops/ops.h"

namespace mt {

using Coefficients = std::array<double, 3>;

// A type's coefficients, and how they go on for more steps than there are.
struct CoefficientType {
  std::vector<Coefficients> steps;
  enum class More { repeat_all, repeat_last } more = More::repeat_all;
};

static const CoefficientType& coefficients_of(const std::string& name) {
  using More = CoefficientType::More;
  static const std::map<std::string, CoefficientType> types{
      {"simple", {{{3.4445, -4.7750, 2.0315}}, More::repeat_all}},
      {"quintic",
       {{{4.0848, -6.8946, 2.9270},
         {3.9505, -6.3029, 2.6377},
         {3.7418, -5.5913, 2.3037},
         {2.8769, -3.1427, 1.2046},
         {2.8366, -3.0525, 1.2012}},
        More::repeat_all}},
      {"polar_express",
       {{{8.2051, -22.9019, 16.4607},
         {4.0664, -2.8612, 0.5184},
         {3.9096, -2.8234, 0.5250},
         {3.2856, -2.4153, 0.4853},
         {2.2779, -1.6198, 0.3985},
         {1.8726, -1.2307, 0.3585},
         {1.8564, -1.2132, 0.3568},
         {1.8750, -1.2500, 0.3750}},
        More::repeat_last}},
      {"aol",
       {{{4.0098, -7.0585, 2.4635},
         {3.4585, -5.5479, 2.5959},
         {2.7573, -3.2939, 1.4254},
         {2.7215, -3.0494, 1.3169}},
        More::repeat_all}}};
  return types.at(name);
}

void MuonOptions::add_to(CommandLine& cl) {
  cl.option("--muon-momentum", &momentum, "F", "decay of Muon's momentum", between(0, 1));
  cl.flag("--muon-nesterov,--muon-use-nesterov", &nesterov, "Nesterov's form of it");
  cl.option("--muon-scale-mode", &scale_mode, "MODE", "spectral, shape_scaling or unit_rms_norm",
            one_of({"spectral", "shape_scaling", "unit_rms_norm"}));
  cl.option("--muon-extra-scale-factor", &extra_scale_factor, "F", "a further factor of the update",
            greater_than(0));
  cl.option("--muon-coefficient-type", &coefficient_type, "TYPE",
            "of Newton and Schulz's iteration: simple, quintic, polar_express or aol",
            one_of({"simple", "quintic", "polar_express", "aol"}));
  cl.option("--muon-num-ns-steps", &num_ns_steps, "N", "its steps", at_least(1));
  cl.off_switch("--muon-no-split-qkv", &split_qkv,
                "queries, keys and values of a layer as one matrix");
  cl.option("--muon-tp-mode", &tp_mode, "MODE",
            "blockwise, duplicated or distributed: how tensor-parallel ranks share a matrix; all "
            "the same where each has the whole",
            one_of({"blockwise", "duplicated", "distributed"}));
  cl.option("--muon-fp32-matmul-prec", &fp32_matmul_prec, "LEVEL",
            "low, medium, high or highest: the least precision of its products; the CPU computes "
            "them in --dtype",
            one_of({"low", "medium", "high", "highest"}));
  cl.option("--muon-scalar-optimizer", &scalar_optimizer, "NAME",
            "of vectors, word embeddings and output layer: adam", one_of({"adam"}));
}

void MuonOptions::complete() const {
  const CoefficientType& type = coefficients_of(coefficient_type);
  const auto length = static_cast<std::int64_t>(type.steps.size());
  if (type.more == CoefficientType::More::repeat_all ? num_ns_steps % length != 0
                                                     : num_ns_steps < length)
    fail(Exit::bad_config, "--muon-num-ns-steps ", num_ns_steps, ": --muon-coefficient-type ",
         coefficient_type, " needs ",
         type.more == CoefficientType::More::repeat_all ? "a multiple of " : "at least ", length);
}

double muon_scale(std::int64_t out, std::int64_t in, const std::string& mode) {
  const auto rows = static_cast<double>(out), cols = static_cast<double>(in);
  if (mode == "spectral") return std::sqrt(std::max(rows, cols));
  if (mode == "shape_scaling") return std::sqrt(std::max(1.0, rows / cols));
  return std::sqrt(rows / cols);
}

void orthogonalize(Tensor x, const MuonOptions& options, Arena& scratch, Stream& stream) {
  const ArenaScope scope(scratch);
  const bool wide = x.shape()[0] <= x.shape()[1];
  const std::int64_t m = std::min(x.shape()[0], x.shape()[1]);
  const auto square = [&] { return scratch.alloc(x.dtype(), {m, m}); };
  Tensor y = scratch.alloc(x.dtype(), x.shape());
  const Tensor a = square(), b = square(), c = square(), result = x;
  scale(x, x, 1 / std::max(std::sqrt(sum_squares(x, stream)), 1e-15), stream);
  const std::vector<Coefficients>& steps = coefficients_of(options.coefficient_type).steps;
  for (std::int64_t i = 0; i < options.num_ns_steps; ++i) {
    const auto count = static_cast<std::int64_t>(steps.size());
    const bool last =
        coefficients_of(options.coefficient_type).more == CoefficientType::More::repeat_last;
    const Coefficients& f =
        steps[static_cast<std::size_t>(last ? std::min(i, count - 1) : i % count)];
    matmul({.out = a, .a = x, .b = x, .transpose_a = !wide, .transpose_b = wide}, stream);
    scale(b, a, f[1], stream);
    scale(c, a, f[2], stream);
    matmul({.out = b, .a = a, .b = c, .accumulate = true}, stream);
    scale(y, x, f[0], stream);
    if (wide)
      matmul({.out = y, .a = b, .b = x, .accumulate = true}, stream);
    else
      matmul({.out = y, .a = x, .b = b, .transpose_b = true, .accumulate = true}, stream);
    std::swap(x, y);
  }
  if (x.data() != result.data()) copy(result, x, stream);
}

// Calls each(first row, rows) for part `part` of every granule of the segment.
template <class Each>
static void for_part(const Segment& segment, std::size_t part, const Each& each) {
  const std::int64_t before =
      std::accumulate(segment.parts.begin(),
                      segment.parts.begin() + static_cast<std::ptrdiff_t>(part), std::int64_t{0});
  for (std::int64_t at = 0; at < segment.extent; at += segment.granularity)
    each(at + before, segment.parts[part]);
}

// Orthogonal and scaled: the update of one matrix, in place.
static void make_update(Tensor u, const MuonOptions& options, Arena& scratch, Stream& stream) {
  orthogonalize(u, options, scratch, stream);
  scale(u, u, muon_scale(u.shape()[0], u.shape()[1], options.scale_mode), stream);
}

static void make_update_by_parts(Tensor u, const Segment& segment, const MuonOptions& options,
                                 Arena& scratch, Stream& stream) {
  for (std::size_t part = 0; part < segment.parts.size(); ++part) {
    const ArenaScope scope(scratch);
    const std::int64_t rows = segment.extent / segment.granularity * segment.parts[part];
    const Tensor matrix = scratch.alloc(u.dtype(), {rows, u.shape()[1]});
    std::int64_t at = 0;
    for_part(segment, part, [&](std::int64_t first, std::int64_t count) {
      copy(matrix.rows(at, at + count), u.rows(first, first + count), stream);
      at += count;
    });
    make_update(matrix, options, scratch, stream);
    at = 0;
    for_part(segment, part, [&](std::int64_t first, std::int64_t count) {
      copy(u.rows(first, first + count), matrix.rows(at, at + count), stream);
      at += count;
    });
  }
}

// u: the momentum, from muon_momentum().
static void make_row_update(Tensor u, const Param& row, const MuonOptions& options, Arena& scratch,
                            Stream& stream) {
  const Segment& segment = row.segments.front();
  if (options.split_qkv && segment.name == "qkv")
    make_update_by_parts(u, segment, options, scratch, stream);
  else
    make_update(u, options, scratch, stream);
}

void muon_step(const Param& row, Tensor momentum, const MuonOptions& options,
               const StepRecord* record, Arena& scratch, Stream& stream) {
  const ArenaScope scope(scratch);
  const Tensor u = scratch.alloc(row.value.dtype(), row.shape);
  muon_momentum(u, momentum, row.grad, options.momentum, options.nesterov, record, stream);
  make_row_update(u, row, options, scratch, stream);
  muon_apply(row.value, u, options.extra_scale_factor, row.learning_rate_mult, row.decay_mult,
             record, stream);
}

std::size_t muon_scratch_bytes(const Param& row, DType dtype, const MuonOptions& options) {
  Stream meta(Device::meta);
  // More than the few matrices of its size that a row takes.
  const std::size_t bytes = static_cast<std::size_t>(row.shape.numel()) * size_of(dtype);
  Arena scratch(Buffer(Device::meta, 64 * bytes + (1 << 20)));
  const Tensor u = scratch.alloc(dtype, row.shape);
  make_row_update(u, row, options, scratch, meta);
  return scratch.peak_bytes();
}

}  // namespace mt
