#include "ops/latent.h"

#include "ops/check.h"

namespace mt {
namespace {

void check_heads(const char* operation, const LatentHeadTensors& heads,
                 const LatentRowTensors& rows, const LatentHeads& s) {
  const Shape of_heads{s.tokens, s.heads, s.width()};
  if (heads.q) check_shape(operation, "q", heads.q, of_heads);
  check_shape(operation, "k", heads.k, of_heads);
  check_shape(operation, "v", heads.v, of_heads);
  if (heads.q) check_shape(operation, "rows of q", rows.q, {s.tokens, s.heads * s.q_width()});
  check_shape(operation, "rows of k and v", rows.kv, {s.tokens, s.heads * s.kv_width()});
  check_shape(operation, "turning", rows.turning, {s.tokens, s.turning});
}

Cost cost_of(const LatentHeadTensors& heads, const LatentRowTensors& rows) {
  return moves(heads.q, heads.k, heads.v, rows.q, rows.kv, rows.turning);
}

template <class U, class T>
LatentParts<U> parts_of(const LatentHeadTensors& heads) {
  return {heads.q ? heads.q.as<T>() : nullptr, heads.k.as<T>(), heads.v.as<T>()};
}
template <class U, class T>
LatentRows<U> rows_of(const LatentRowTensors& rows) {
  return {rows.q ? rows.q.as<T>() : nullptr, rows.kv.as<T>(), rows.turning.as<T>()};
}

struct Columns {
  std::int64_t rows, first, second;
};
Columns columns_of(const char* operation, const ConstTensor& a, const ConstTensor& b,
                   const ConstTensor& x) {
  const Columns c{x.shape()[0], a.shape()[1], x.shape()[1] - a.shape()[1]};
  check_shape(operation, "a", a, {c.rows, c.first});
  if (b) check_shape(operation, "b", b, {c.rows, c.second});
  return c;
}

}  // namespace

void latent_heads_forward(const LatentHeadTensors& heads, const LatentRowTensors& rows,
                          const LatentHeads& shape, Stream& stream) {
  check_heads("latent_heads_forward", heads, rows, shape);
  dispatch(
      Family::attention, heads.k, cost_of(heads, rows), stream,
      [&]<class T>() {
        cpu::latent_heads_forward(parts_of<T, T>(heads), rows_of<const T, T>(rows), shape);
      },
      [&]<class T>() {
        cuda::latent_heads_forward(parts_of<T, T>(heads), rows_of<const T, T>(rows), shape,
                                   stream.handle());
      });
}

void latent_heads_backward(const LatentRowTensors& rows, const LatentHeadTensors& heads,
                           const LatentHeads& shape, Stream& stream) {
  check_heads("latent_heads_backward", heads, rows, shape);
  dispatch(
      Family::attention, heads.q, cost_of(heads, rows), stream,
      [&]<class T>() {
        cpu::latent_heads_backward(rows_of<T, T>(rows), parts_of<const T, T>(heads), shape);
      },
      [&]<class T>() {
        cuda::latent_heads_backward(rows_of<T, T>(rows), parts_of<const T, T>(heads), shape,
                                    stream.handle());
      });
}

void cached_latents(const CachedLatentTensors& t, Stream& stream) {
  const Shape &q = t.q.shape(), &cache = t.cache.shape(), &slots = t.slots.shape();
  CachedLatentsShape s{.tokens = q[0],
                       .sequences = slots[0],
                       .heads = q[1],
                       .turning = t.turning.shape()[1],
                       .rank = t.latents.shape()[1],
                       .capacity = cache[1],
                       .runs = slots[1]};
  s.fixed = t.q_rows.shape()[1] / s.heads - s.turning;
  check_shape("cached_latents", "q", t.q, {s.tokens, s.heads, s.width()});
  check_shape("cached_latents", "cache", t.cache, {cache[0], s.capacity, 1, s.width()});
  check_shape("cached_latents", "rows of q", t.q_rows, {s.tokens, s.heads * (s.fixed + s.turning)});
  check_shape("cached_latents", "turning", t.turning, {s.tokens, s.turning});
  check_shape("cached_latents", "latents", t.latents, {s.tokens, s.rank});
  check_shape("cached_latents", "angles", t.angles, {s.tokens, s.turning});
  check_shape("cached_latents", "positions", t.positions, {s.tokens});
  const double turned = static_cast<double>(s.tokens * s.heads * s.turning) *
                        static_cast<double>(size_of(t.q.dtype()));
  const auto with = [&]<class T>() -> CachedLatents<T> {
    return {t.q.as<T>(),
            t.cache.as<T>(),
            t.q_rows.as<T>(),
            t.turning.as<T>(),
            t.latents.as<T>(),
            t.positions.as<std::int32_t>(),
            t.slots.as<std::int32_t>()};
  };
  Cost cost = moves(t.turning, t.latents);
  cost.bytes = 2 * (cost.bytes + turned);
  dispatch(
      Family::attention, t.q, cost, stream,
      [&]<class T>() { cpu::cached_latents(with.template operator()<T>(), t.angles.as<T>(), s); },
      [&]<class T>() {
        cuda::cached_latents(with.template operator()<T>(), t.angles.as<float>(), s,
                             stream.handle());
      });
}

void head_product(Tensor out, ConstTensor x, ConstTensor w, const HeadProductShape& of,
                  Stream& stream) {
  HeadProductShape s = of;
  s.tokens = out.shape()[0];
  s.heads = out.shape()[1];
  s.out_width = out.shape()[2];
  s.x_width = x.shape()[2];
  s.cols = w.shape()[1];
  check_shape("head_product", "x", x, {s.tokens, s.heads, s.x_width});
  check_shape("head_product", "w", w, {s.heads * s.rows_of_head, s.cols});
  if (s.first_row + s.rows > s.rows_of_head || s.first_x + s.read() > s.x_width ||
      s.first_out + s.made() > s.out_width)
    fail(Exit::internal, "head_product: rows ", s.first_row, " and ", s.rows, " more of ",
         s.rows_of_head, ", ", s.read(), " channels of ", s.x_width, " to ", s.made(), " of ",
         s.out_width);
  const auto size = static_cast<double>(size_of(w.dtype()));
  const auto weights = static_cast<double>(s.heads * s.rows * s.cols),
             moved = static_cast<double>(s.tokens * s.heads * (s.rows + s.cols));
  dispatch(
      Family::product, out,
      {.flops = 2 * static_cast<double>(s.tokens) * weights, .bytes = size * (weights + moved)},
      stream, [&]<class T>() { cpu::head_product(out.as<T>(), x.as<T>(), w.as<T>(), s); },
      [&]<class T>() {
        cuda::head_product(out.as<T>(), x.as<T>(), w.as<T>(), s, stream.handle());
      });
}

void split_columns(Tensor a, Tensor b, ConstTensor x, Stream& stream) {
  const Columns c = columns_of("split_columns", a, b, x);
  dispatch(
      Family::elementwise, x, moves(x, x), stream,
      [&]<class T>() {
        cpu::split_columns(a.as<T>(), b ? b.as<T>() : nullptr, x.as<T>(), c.rows, c.first,
                           c.second);
      },
      [&]<class T>() {
        cuda::split_columns(a.as<T>(), b ? b.as<T>() : nullptr, x.as<T>(), c.rows, c.first,
                            c.second, stream.handle());
      });
}

void merge_columns(Tensor x, ConstTensor a, ConstTensor b, Stream& stream) {
  const Columns c = columns_of("merge_columns", a, b, x);
  dispatch(
      Family::elementwise, x, moves(x, x), stream,
      [&]<class T>() {
        cpu::merge_columns(x.as<T>(), a.as<T>(), or_null<T>(b), c.rows, c.first, c.second);
      },
      [&]<class T>() {
        cuda::merge_columns(x.as<T>(), a.as<T>(), or_null<T>(b), c.rows, c.first, c.second,
                            stream.handle());
      });
}

}  // namespace mt
