#include "nn/fp8_layers.h"

#include <algorithm>

#include "comm/group.h"
#include "kernels/fp8_blocks.h"
#include "nn/context_parallel.h"
#include "ops/fp8.h"
#include "ops/ops.h"

namespace mt {

static constexpr std::size_t kAlignment = 256;  // bytes

static std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static void check_sides(const Param& row) {
  for (const std::int64_t side : row.local.extents())
    if (side % kFp8Multiple != 0)
      fail(Exit::bad_config, row.name(), ": ", row.local, row.is_cut() ? " on each rank" : "",
           ", of which fp8 needs multiples of ", kFp8Multiple);
}

Fp8Layers::Fp8Layers(const ParamTable& table, const Fp8Rules& rules, Stream& stream)
    : rules_(rules) {
  std::vector<Shape> shapes;
  std::vector<bool> gathered;
  numbers_.assign(table.rows().size(), -1);
  for (const Param& row : table.rows()) {
    if (row.shape.rank() != 2 || row.place.param != "weight" || !rules.multiplies(row.place))
      continue;
    check_sides(row);
    numbers_[row.index] = layers();
    names_.push_back(row.name());
    shapes.push_back(row.local);
    gathered.push_back(has(row));
  }
  std::size_t size = 0;
  const auto place_all = [&] {
    size = 0;
    const auto place = [&](Tensor& tensor, DType dtype, const Shape& shape) {
      if (storage_.bytes() > 0) tensor = storage_.tensor(dtype, shape, size);
      size += aligned(static_cast<std::size_t>(shape.numel()) * size_of(dtype));
    };
    if (rules.delayed) {
      const std::int64_t count = kOperands * layers();
      for (Tensor* tensor : {&scale_, &amax_}) place(*tensor, DType::f32, {count});
      place(inverse_, DType::f32, {count, kFp8InverseStride});
      place(history_, DType::f32, {count, rules.delayed->length});
    }
    if (rules.gathers_codes && !rules.delayed) {
      std::int64_t count = 0;
      const auto numbers_of = [&](const Shape& shape) {
        return rules.blockwise ? fp8_blocks(shape[0]) * fp8_blocks(shape[1]) : 1;
      };
      for (const Shape& shape : shapes) count += numbers_of(shape);
      place(all_largest_, DType::f32, {count});
      place(of_gathered_, DType::f32, {layers()});
      if (all_largest_)
        for (std::int64_t at = 0; const Shape& shape : shapes) {
          largest_.push_back(all_largest_.rows(at, at + numbers_of(shape)));
          at += numbers_of(shape);
        }
    }
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const std::int64_t out = shapes[i][0], in = shapes[i][1];
      Codes& kept = kept_[i];
      if (!gathered[i]) place(kept.codes, DType::u8, {out, in});
      place(kept.transposed, DType::u8, {in, out});
      if (rules.blockwise) {
        place(kept.inverse, DType::f32, {fp8_blocks(in), out});
        place(kept.transposed_inverse, DType::f32, {fp8_blocks(out), in});
        kept.blocks = kept.squares = true;
      } else {
        place(kept.inverse, DType::f32, {1});
        kept.transposed_inverse = kept.inverse;
      }
    }
  };
  if (rules.keeps_weights) kept_.resize(shapes.size());
  place_all();
  storage_ = Buffer(stream.device(), size);
  if (size == 0) return;
  place_all();
  if (!rules.delayed) return;
  fill(scale_, 1, stream);
  fill(inverse_, 1, stream);
  set_zero(amax_, stream);
  set_zero(history_, stream);
}

// The largest number is that of all ranks' parts, at once or by the end of the step.
Fp8Layers::Codes Fp8Layers::cast(Step& s, const Param& weight, Operand operand, ConstTensor x,
                                 Codes to, const std::vector<Group*>& ranks) const {
  const ArenaScope scope(s.layer);
  if (rules_.delayed) {
    const std::int64_t place = place_of(weight, operand);
    fp8_cast(to.codes, to.transposed, s.training ? amax_.rows(place, place + 1) : Tensor(), x,
             scale_.rows(place, place + 1), to.format, s.stream);
    return to;
  }
  const auto number = [&] { return s.layer.alloc(DType::f32, {1}); };
  const Tensor amax = number(), scale = number();
  fp8_amax(amax, x, s.stream);
  for (Group* group : ranks) group->all_reduce(amax, Reduction::max).wait();
  fp8_scale(scale, to.inverse, amax, to.format, s.stream);
  fp8_cast(to.codes, to.transposed, {}, x, scale, to.format, s.stream);
  return to;
}

static void cast_blocks(const Fp8Layers::Codes& to, ConstTensor x, Stream& stream) {
  fp8_block_cast({to.codes, to.inverse, to.transposed, to.transposed_inverse}, x, to.squares,
                 stream);
}

// x: a micro-batch's rows.  is_part: tensor-parallel ranks have other columns each.
Fp8Layers::Codes Fp8Layers::cast_rows(Step& s, const Param& weight, Operand operand, ConstTensor x,
                                      Wanted wanted, bool is_part) const {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  const bool gathered = weight.is_cut() && rows != s.tokens.count();  // before the product
  const bool by_parts = weight.is_cut() && s.shares_rows() && s.tensor_overlap;
  const std::int64_t multiplied = by_parts ? s.rows() : gathered ? s.tokens.count() : rows;
  if (multiplied % kFp8Multiple != 0)
    fail(Exit::bad_config, weight.name(), ": reads ", multiplied, " rows of a micro-batch ",
         by_parts ? "at a time" : "on each rank", ", of which fp8 needs a multiple of ",
         kFp8Multiple);
  Codes to{.codes = {},
           .inverse = {},
           .transposed = {},
           .transposed_inverse = {},
           .format = format_of(operand),
           .blocks = rules_.blockwise};
  const bool outlives = wanted != Wanted::codes && s.weight_grads.deferring();
  Arena& arena = outlives ? s.deferred : s.layer;
  if (wanted != Wanted::transposed) to.codes = s.layer.alloc(DType::u8, {rows, cols});
  if (wanted != Wanted::codes) to.transposed = arena.alloc(DType::u8, {cols, rows});
  if (rules_.blockwise) {
    if (to.codes) to.inverse = s.layer.alloc(DType::f32, {fp8_blocks(cols), rows});
    if (to.transposed) to.transposed_inverse = arena.alloc(DType::f32, {fp8_blocks(rows), cols});
    cast_blocks(to, x, s.stream);
    return to;
  }
  const std::int64_t place = place_of(weight, operand);
  to.inverse = to.transposed_inverse =
      rules_.delayed ? inverse_of(place) : arena.alloc(DType::f32, {1});
  std::vector<Group*> ranks;
  if (s.tensor_ranks() > 1 && (is_part || rows != s.tokens.count())) ranks.push_back(s.tensor);
  if (s.context != nullptr && s.context->size() > 1) ranks.push_back(&s.context->ranks());
  return cast(s, weight, operand, x, to, ranks);
}

Fp8Layers::Codes Fp8Layers::input(Step& s, const Param& weight, ConstTensor x,
                                  Wanted wanted) const {
  return cast_rows(s, weight, of_x, x, wanted, weight.is_cut() && weight.dimension == 1);
}

Fp8Layers::Codes Fp8Layers::gradient(Step& s, const Param& weight, ConstTensor dy,
                                     Wanted wanted) const {
  return cast_rows(s, weight, of_dy, dy, wanted, weight.is_cut() && weight.dimension == 0);
}

// --- Codes that are gathered. ---

void Fp8Layers::put_at(const Param& row, const Tensor& codes) {
  kept_[static_cast<std::size_t>(numbers_[row.index])].codes = codes.reshape(row.local);
}

// Rows follow one another in the table, and so their largest numbers do.  Those of a matrix are all
// tensor-parallel ranks', but those of blocks.
void Fp8Layers::cast(std::span<const Param* const> rows, std::span<const Part> parts, Group& ranks,
                     Stream& stream) {
  const auto number_of = [&](const Param& row) {
    return static_cast<std::size_t>(numbers_[row.index]);
  };
  gathered_ = true;
  if (rules_.delayed) {
    for (const Part& part : parts) {
      const std::int64_t place = place_of(*part.row, of_weight);
      fp8_part_cast(part.codes, amax_.rows(place, place + 1), part.values,
                    scale_.rows(place, place + 1), Fp8Format::e4m3, stream);
    }
    return;
  }
  const auto whole_of = [](const Part& part) { return Fp8PartOf{part.row->local, part.begin}; };
  const auto squares_of = [&](const Param& row) {
    return largest_[number_of(row)].reshape({fp8_blocks(row.local[0]), fp8_blocks(row.local[1])});
  };
  std::int64_t begin = all_largest_.numel(), end = 0;
  for (const Param* row : rows) {
    const Tensor& largest = largest_[number_of(*row)];
    const std::int64_t at = largest.as<float>() - all_largest_.as<float>();
    begin = std::min(begin, at);
    end = std::max(end, at + largest.numel());
  }
  if (begin >= end) return;
  const Tensor largest = all_largest_.rows(begin, end);
  set_zero(largest, stream);
  for (const Part& part : parts)
    rules_.blockwise ? fp8_part_squares(squares_of(*part.row), part.values, whole_of(part), stream)
                     : fp8_amax(largest_[number_of(*part.row)], part.values, stream);
  ranks.all_reduce(largest, Reduction::max).wait();
  if (!rules_.blockwise && tensor_ != nullptr && tensor_->size() > 1)
    tensor_->all_reduce(largest, Reduction::max).wait();
  for (const Param* row : rows) {
    if (rules_.blockwise) break;
    const auto i = static_cast<std::int64_t>(number_of(*row));
    fp8_scale(of_gathered_.rows(i, i + 1), kept_[number_of(*row)].inverse,
              largest_[number_of(*row)], Fp8Format::e4m3, stream);
  }
  for (const Part& part : parts) {
    const auto i = static_cast<std::int64_t>(number_of(*part.row));
    rules_.blockwise ? fp8_part_cast_squares(part.codes, part.values, squares_of(*part.row),
                                             whole_of(part), stream)
                     : fp8_part_cast(part.codes, {}, part.values, of_gathered_.rows(i, i + 1),
                                     Fp8Format::e4m3, stream);
  }
}

// What is gathered lacks its transpose, and the inverses of squares.
Fp8Layers::Codes Fp8Layers::gathered_codes(Step& s, const Param& weight) const {
  s.weight(weight);  // has been gathered then
  const auto number = static_cast<std::size_t>(numbers_[weight.index]);
  Codes kept = kept_[number];
  if (rules_.delayed)
    kept.inverse = kept.transposed_inverse = inverse_of(place_of(weight, of_weight));
  if (s.new_weights)
    fp8_complete({kept.codes, kept.inverse, kept.transposed, kept.transposed_inverse},
                 rules_.blockwise ? largest_[number] : Tensor(), s.stream);
  return kept;
}

// They are the same for the weight and its transpose, which are cast together where they are kept.
Fp8Layers::Codes Fp8Layers::weight_blocks(Step& s, const Param& weight, Wanted wanted) const {
  const ConstTensor value = s.weight(weight);
  if (rules_.keeps_weights) {
    const Codes& kept = kept_[static_cast<std::size_t>(numbers_[weight.index])];
    if (s.new_weights) cast_blocks(kept, value, s.stream);
    return kept;
  }
  const std::int64_t out = weight.local[0], in = weight.local[1];
  Codes to;
  to.blocks = to.squares = true;
  if (wanted == Wanted::codes) {
    to.codes = s.layer.alloc(DType::u8, {out, in});
    to.inverse = s.layer.alloc(DType::f32, {fp8_blocks(in), out});
  } else {
    to.transposed = s.layer.alloc(DType::u8, {in, out});
    to.transposed_inverse = s.layer.alloc(DType::f32, {fp8_blocks(out), in});
  }
  cast_blocks(to, value, s.stream);
  return to;
}

Fp8Layers::Codes Fp8Layers::weight_codes(Step& s, const Param& weight, Wanted wanted) const {
  if (gathered_ && has(weight)) return gathered_codes(s, weight);
  if (rules_.blockwise) return weight_blocks(s, weight, wanted);
  const ConstTensor value = s.weight(weight);
  std::vector<Group*> ranks;
  if (weight.is_cut()) ranks.push_back(s.tensor);
  const auto number = static_cast<std::size_t>(numbers_[weight.index]);
  const std::int64_t place = place_of(weight, of_weight);
  if (rules_.keeps_weights) {
    Codes kept = kept_[number];
    if (rules_.delayed) kept.inverse = kept.transposed_inverse = inverse_of(place);
    return s.new_weights ? cast(s, weight, of_weight, value, kept, ranks) : kept;
  }
  Codes to;
  to.inverse = to.transposed_inverse =
      rules_.delayed ? inverse_of(place) : s.layer.alloc(DType::f32, {1});
  const std::int64_t rows = weight.local[0], cols = weight.local[1];
  if (wanted == Wanted::codes)
    to.codes = s.layer.alloc(DType::u8, {rows, cols});
  else
    to.transposed = s.layer.alloc(DType::u8, {cols, rows});
  return cast(s, weight, of_weight, value, to, ranks);
}

// What is said of a product of these, or of what has these inverses.
static Matmul::Codes meaning(const Fp8Layers::Codes& a, ConstTensor a_inverse,
                             const Fp8Layers::Codes& b, ConstTensor b_inverse) {
  return {.a_inverse = a_inverse,
          .b_inverse = b_inverse,
          .a = a.format,
          .b = b.format,
          .blocks = b.blocks,
          .squares = b.squares};
}

void Fp8Layers::put_weight(Step& s, Matmul& problem, const Param& weight, const Codes& a) const {
  const Codes w = weight_codes(s, weight, Wanted::codes);
  problem.a = a.codes;
  problem.b = w.codes;
  problem.transpose_b = true;
  problem.codes = meaning(a, a.inverse, w, w.inverse);
  problem.codes.fast = true;
}

void Fp8Layers::put_transposed_weight(Step& s, Matmul& problem, const Param& weight,
                                      const Codes& a) const {
  const Codes w = weight_codes(s, weight, Wanted::transposed);
  problem.a = a.codes;
  problem.b = w.transposed;
  problem.transpose_b = true;
  problem.codes = meaning(a, a.inverse, w, w.transposed_inverse);
}

void Fp8Layers::put(WeightGrad& record, const Codes& dy, const Codes& x) {
  record.dy_codes = dy.transposed;
  record.x_codes = x.transposed;
  record.codes = meaning(dy, dy.transposed_inverse, x, x.transposed_inverse);
}

// --- Delayed scales. ---

void Fp8Layers::update_scales(const std::vector<Group*>& ranks, Stream& stream) {
  if (!rules_.delayed || layers() == 0) return;
  for (Group* group : ranks) group->all_reduce(amax_, Reduction::max).wait();
  const auto update = [&](std::int64_t begin, std::int64_t end, Fp8Format format) {
    fp8_update(scale_.rows(begin, end), inverse_.rows(begin, end), history_.rows(begin, end),
               amax_.rows(begin, end), rules_.delayed->most_recent, rules_.delayed->margin, format,
               stream);
  };
  update(0, of_dy * layers(), format_of(of_x));
  update(of_dy * layers(), kOperands * layers(), format_of(of_dy));
}

std::vector<Fp8Layers::Memory> Fp8Layers::memories(Stream& stream) const {
  const std::int64_t length = rules_.delayed->length, count = layers();
  std::vector<float> scales(static_cast<std::size_t>(kOperands * count)),
      history(scales.size() * static_cast<std::size_t>(length));
  transfer({scales.data(), DType::f32, scale_.shape()}, scale_, stream);
  transfer({history.data(), DType::f32, history_.shape()}, history_, stream);
  stream.synchronize();
  std::vector<Memory> memories;
  for (std::int64_t i = 0; i < count; ++i) {
    Memory& memory = memories.emplace_back(Memory{names_[static_cast<std::size_t>(i)], {}});
    for (std::int64_t o = 0; o < kOperands; ++o)
      memory.numbers.push_back(scales[static_cast<std::size_t>(o * count + i)]);
    for (std::int64_t o = 0; o < kOperands; ++o)
      memory.numbers.insert(memory.numbers.end(), history.begin() + (o * count + i) * length,
                            history.begin() + (o * count + i + 1) * length);
  }
  return memories;
}

void Fp8Layers::remember(const Memory& memory, Stream& stream) {
  const std::int64_t length = rules_.delayed->length;
  const auto name = std::ranges::find(names_, memory.name);
  if (name == names_.end() || memory.numbers.size() != remembered())
    fail(Exit::internal, memory.name, ": is not what a layer remembers");
  const std::int64_t i = name - names_.begin();
  const float* const numbers = memory.numbers.data();
  for (std::int64_t o = 0; o < kOperands; ++o) {
    const std::int64_t place = o * layers() + i;
    const float inverse = 1 / numbers[o];
    const auto put = [&](const Tensor& to, const float* from) {
      transfer(to, ConstTensor(from, DType::f32, to.shape()), stream);
    };
    put(scale_.rows(place, place + 1), numbers + o);
    put(inverse_of(place), &inverse);
    put(history_.rows(place, place + 1), numbers + kOperands + o * length);
    stream.synchronize();
  }
}

}  // namespace mt
