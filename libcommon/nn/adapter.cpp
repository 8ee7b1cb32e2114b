#include "nn/adapter.h"

#include <cmath>

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

bool is_adapter(const RowPlace& place) {
  return place.param == Adapter::kA || place.param == Adapter::kB ||
         place.param == Adapter::kMagnitude;
}

// PartRows: the rows of a weight that a part consists of.
struct PartRows {
  RowBlock block;  // of this rank's rows
  std::int64_t rows = 0;
  std::vector<Segment> segments = {};
};

// A fused projection's parts are named by the letters of its segment, "qkv"; others are segments.
static PartRows rows_of(const Param& weight, const std::string& part) {
  const std::int64_t own = weight.local[0];
  PartRows found{.block = {.period = own, .count = own}, .rows = weight.shape[0]};
  if (part.empty()) {
    for (const Segment& segment : weight.segments)
      if (segment.dimension == 0) found.segments.push_back(segment);
    return found;
  }
  const Segment& whole = weight.segments.front();
  RowBlock& block = found.block;
  if (!whole.parts.empty()) {
    const std::size_t number = whole.name.find(part);
    block.period = whole.granularity;
    block.count = whole.parts.at(number);
    for (std::size_t i = 0; i < number; ++i) block.first += whole.parts[i];
    found.rows = whole.extent / whole.granularity * block.count;
    found.segments = {{part, found.rows, 0, whole.axis, block.count}};
    return found;
  }
  for (const Segment& segment : weight.segments) {
    block.count = segment.extent * own / weight.shape[0];
    found.rows = segment.extent;
    found.segments = {segment};
    if (segment.name == part) return found;
    block.first += block.count;
  }
  fail(Exit::internal, weight.name(), ": has no part ", part);
}

RowPlace adapter_place(const RowPlace& weight, const std::string& part, std::string_view param) {
  RowPlace place = weight;
  if (!part.empty()) place.module += "." + part;
  place.param = param;
  return place;
}

RowBlock adapted_rows(const Param& weight, const std::string& part) {
  return rows_of(weight, part).block;
}

Adapter::Adapter(ParamTable& table, const Param& weight, const Options& options)
    : options_(options), in_(weight.local[1]), out_(weight.local[0]) {
  const bool by_outputs = weight.is_cut() && weight.dimension == 0,
             by_inputs = weight.is_cut() && weight.dimension == 1;
  by_inputs_ = by_inputs;
  if (by_inputs) first_channel_ = weight.cuts.front().global;
  const std::int64_t rank = options_.rank;
  // Kaiming's uniform distribution with a = sqrt(5), as PEFT's: bounded by 1 / sqrt(in).
  const Initializer init{Initializer::Kind::uniform,
                         1 / std::sqrt(3 * static_cast<double>(weight.shape[1]))};
  for (std::int64_t i = 0; i < std::ssize(options_.parts); ++i) {
    const std::string& name = options_.parts[static_cast<std::size_t>(i)];
    const PartRows rows = rows_of(weight, name);
    Param a{.place = adapter_place(weight.place, name, kA),
            .shape = {rank, weight.shape[1]},
            .init = init,
            .summed_over = by_outputs ? SummedOver::tp : SummedOver::none,
            .layers = weight.layers};
    for (const Segment& segment : weight.segments)
      if (segment.dimension == 1) a.segments.push_back(segment);
    Param b{.place = adapter_place(weight.place, name, kB),
            .shape = {rows.rows, rank},
            .segments = rows.segments,
            .summed_over = by_inputs ? SummedOver::tp : SummedOver::none,
            .layers = weight.layers};
    Param magnitude{.place = adapter_place(weight.place, name, kMagnitude),
                    .shape = {rows.rows},
                    .init = {Initializer::Kind::ones},
                    .segments = rows.segments,
                    .summed_over = by_inputs ? SummedOver::tp : SummedOver::none,
                    .layers = weight.layers};
    RowBlock outputs = rows.block;
    outputs.column = i * rank;
    const Param *const in = &table.add(std::move(a)), *const out = &table.add(std::move(b));
    parts_.push_back({.a = in,
                      .b = out,
                      .magnitude = options_.magnitudes ? &table.add(std::move(magnitude)) : nullptr,
                      .inputs = {.period = width(), .first = i * rank, .count = rank},
                      .outputs = outputs,
                      .multiple = options_.multiples.empty()
                                      ? 1
                                      : options_.multiples.at(static_cast<std::size_t>(i))});
  }
}

Tensor Adapter::all_inputs(Step& s) const {
  const Tensor all = s.scratch({width(), in_});
  for (const Part& part : parts_) {
    spread(all, s.weight(*part.a), part.inputs, 1, s.stream);
    s.done(*part.a);
  }
  return all;
}

Tensor Adapter::all_outputs(Step& s, ConstTensor factor) const {
  const Tensor all = s.scratch({out_, width()});
  set_zero(all, s.stream);
  for (const Part& part : parts_) {
    spread(all, s.weight(*part.b), part.outputs, part.scale(options_), s.stream);
    s.done(*part.b);
  }
  if (factor) scale_rows(all, all, factor, s.stream);
  return all;
}

// The block's rows of a column, times a factor.
static void scale_block(Step& s, Tensor column, const RowBlock& rows, double factor) {
  const ArenaScope scope(s.layer);
  const Tensor wide = column.reshape({column.numel(), 1}),
               narrow = s.scratch_sums({column.numel() / rows.period * rows.count, 1});
  set_zero(narrow, s.stream);
  collect(narrow, wide, rows, factor, s.stream);
  spread(wide, narrow, rows, 1, s.stream);
}

Adapter::Directions Adapter::directions(Step& s, ConstTensor weight) const {
  if (!options_.magnitudes) return {};
  const Directions made{.v = s.scratch(weight.shape()),
                        .squares = s.scratch_sums({out_}),
                        .factor = s.scratch_sums({out_})};
  copy(made.v, weight, s.stream);
  {
    const ArenaScope scope(s.layer);
    matmul({.out = made.v, .a = all_outputs(s, {}), .b = all_inputs(s), .accumulate = true},
           s.stream);
  }
  row_squares(made.squares, made.v, s.stream);
  if (by_inputs_) s.tensor->all_reduce(made.squares).wait();
  fill(made.factor, 1, s.stream);
  for (const Part& part : parts_) {
    RowBlock rows = part.outputs;
    rows.column = 0;
    if (part.multiple != 1) scale_block(s, made.squares, rows, 1 / (part.multiple * part.multiple));
    row_factors(made.factor, s.weight(*part.magnitude), made.squares, rows, s.stream);
    s.done(*part.magnitude);
  }
  return made;
}

ConstTensor Adapter::scaled(Step& s, ConstTensor weight, const Directions& directions) const {
  if (!directions.factor) return weight;
  const Tensor rows = s.scratch(weight.shape());
  scale_rows(rows, weight, directions.factor, s.stream);
  return rows;
}

Dropout Adapter::dropout(const Step& s) const {
  Dropout dropout = s.dropout(options_.dropout, options_.layer, options_.purpose);
  dropout.first_row = 0;
  dropout.first_channel = first_channel_;
  return dropout;
}

// This Step, whose rows are those of all its tokens, as x's are here.
static Step of_all_rows(const Step& s) {
  Step all = s;
  all.sequence_parallel = false;
  return all;
}

// drop(x), in `layer`.
static ConstTensor dropped(Step& s, ConstTensor x, const Dropout& dropout) {
  if (dropout.p == 0) return x;
  const Tensor y = s.scratch(x.shape());
  Step all = of_all_rows(s);
  add_dropout(all, y, {}, x, {}, dropout);
  return y;
}

void Adapter::forward(Step& s, Tensor y, ConstTensor x, const Directions& directions,
                      bool accumulate) const {
  const ArenaScope scope(s.layer);
  const Tensor low = s.scratch({x.shape()[0], width()});
  matmul({.out = low,
          .a = dropped(s, x, dropout(s)),
          .b = all_inputs(s),
          .transpose_b = true,
          .rows_alone = s.batch_invariant},
         s.stream);
  matmul({.out = y,
          .a = low,
          .b = all_outputs(s, directions.factor),
          .transpose_b = true,
          .accumulate = accumulate,
          .rows_alone = s.batch_invariant},
         s.stream);
}

void Adapter::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                       const Directions& directions) const {
  const ArenaScope scope(s.layer);
  const Dropout dropping = dropout(s);
  const Tensor a = all_inputs(s), d_low = s.scratch({dy.shape()[0], width()});
  matmul({.out = d_low, .a = dy, .b = all_outputs(s, directions.factor)}, s.stream);
  if (dx && dropping.p == 0) {
    matmul({.out = dx, .a = d_low, .b = a, .accumulate = true}, s.stream);
  } else if (dx) {
    const ArenaScope of_part(s.layer);
    const Tensor part = s.scratch(dx.shape());
    matmul({.out = part, .a = d_low, .b = a}, s.stream);
    Step all = of_all_rows(s);
    add_dropout_backward(all, part, part, dropping);
    add(dx, dx, part, s.stream);
  }
  const ConstTensor read = dropped(s, x, dropping);
  const Tensor low = s.scratch(d_low.shape()), da = s.scratch_sums(a.shape()),
               db = s.scratch_sums({out_, width()});
  matmul({.out = low, .a = read, .b = a, .transpose_b = true}, s.stream);
  matmul({.out = da, .a = d_low, .b = read, .transpose_a = true}, s.stream);
  matmul({.out = db, .a = dy, .b = low, .transpose_a = true}, s.stream);
  if (directions.factor) scale_rows(db, db, directions.factor, s.stream);
  for (const Part& part : parts_) {
    if (part.a->trainable) collect(s.gradient_of(*part.a), da, part.inputs, 1, s.stream);
    if (part.b->trainable)
      collect(s.gradient_of(*part.b), db, part.outputs, part.scale(options_), s.stream);
  }
  if (!options_.magnitudes) return;
  const Tensor z = s.scratch(dy.shape()), total = s.scratch_sums({out_});
  matmul({.out = z, .a = x, .b = directions.v, .transpose_b = true}, s.stream);
  multiply(z, z, dy, s.stream);
  set_zero(total, s.stream);
  column_sum(total, z, s.stream);
  for (const Part& part : parts_) {
    RowBlock rows = part.outputs;
    rows.column = 0;
    if (part.magnitude->trainable)
      add_over_norms(s.gradient_of(*part.magnitude), total, directions.squares, rows, s.stream);
  }
}

}  // namespace mt
