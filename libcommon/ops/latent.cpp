#include "ops/latent.h"

#include "ops/check.h"

namespace mt {
namespace {

void check_heads(const char* operation, const LatentHeadTensors& heads,
                 const LatentRowTensors& rows, const LatentHeads& s) {
  const Shape of_heads{s.tokens, s.heads, s.width()};
  check_shape(operation, "q", heads.q, of_heads);
  check_shape(operation, "k", heads.k, of_heads);
  check_shape(operation, "v", heads.v, of_heads);
  check_shape(operation, "rows of q", rows.q, {s.tokens, s.heads * s.q_width()});
  check_shape(operation, "rows of k and v", rows.kv, {s.tokens, s.heads * s.kv_width()});
  check_shape(operation, "turning", rows.turning, {s.tokens, s.turning});
}

Cost cost_of(const LatentHeadTensors& heads, const LatentRowTensors& rows) {
  return moves(heads.q, heads.k, heads.v, rows.q, rows.kv, rows.turning);
}

template <class U, class T>
LatentParts<U> parts_of(const LatentHeadTensors& heads) {
  return {heads.q.as<T>(), heads.k.as<T>(), heads.v.as<T>()};
}
template <class U, class T>
LatentRows<U> rows_of(const LatentRowTensors& rows) {
  return {rows.q.as<T>(), rows.kv.as<T>(), rows.turning.as<T>()};
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
      Family::attention, heads.q, cost_of(heads, rows), stream,
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
