#include <algorithm>
#include <bit>
#include <span>

#include "kernels/cached_qkv.h"
#include "kernels/gpu.h"
#include "kernels/rope.h"
#include "kernels/token_attention.h"
#include "ops/check.h"
#include "ops/gpu_library.h"
#include "ops/ops.h"

namespace mt {

// From the shape's first position on.  Made where there are other frequencies or more positions
// than before.
static const float* rope_table(const ConstTensor& inv_freq, const RopeShape& shape,
                               Stream& stream) {
  std::vector<GpuLibrary::RopeTable>& tables = gpu_library(stream).rope_tables;
  const std::span<const double> frequencies = inv_freq.span<double>();
  auto found = std::ranges::find_if(tables, [&](const GpuLibrary::RopeTable& table) {
    return std::ranges::equal(table.frequencies, frequencies) && table.magnitude == shape.magnitude;
  });
  if (found == tables.end())
    found = tables.insert(found, {.frequencies = {frequencies.begin(), frequencies.end()},
                                  .magnitude = shape.magnitude});
  GpuLibrary::RopeTable& kept = *found;
  const std::int64_t end = shape.first_position + std::min(shape.tokens, shape.seq_length);
  if (kept.positions < end) {
    stream.synchronize();  // the old one may be in use
    kept.positions = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(end)));
    kept.table = Buffer(
        Device::cuda, static_cast<std::size_t>(kept.positions * shape.rotary_dim) * sizeof(float));
    void* const work = stream.work(inv_freq.bytes());
    device::copy(work, inv_freq.data(), inv_freq.bytes(), stream.handle());
    cuda::rope_table(static_cast<float*>(kept.table.data()), static_cast<const double*>(work),
                     {.tokens = kept.positions,
                      .rotary_dim = shape.rotary_dim,
                      .seq_length = kept.positions,
                      .magnitude = shape.magnitude},
                     stream.handle());
  }
  return static_cast<const float*>(kept.table.data()) + shape.first_position * shape.rotary_dim;
}

void rope(Tensor x, const Rope& rope, bool inverse, Stream& stream) {
  const RopeShape shape = {.tokens = x.shape()[0],
                           .heads = x.shape()[1],
                           .head_dim = x.shape()[2],
                           .rotary_dim = 2 * rope.inv_freq.numel(),
                           .seq_length = rope.seq_length,
                           .first_position = rope.first_position,
                           .interleaved = rope.interleaved,
                           .magnitude = rope.magnitude,
                           .packed_group = rope.packed_group};
  if (shape.rotary_dim > shape.head_dim)
    fail(Exit::internal, "rope: ", shape.rotary_dim, " rotated channels of ", shape.head_dim);
  dispatch(
      Family::attention, x, {.bytes = 2.0 * static_cast<double>(x.bytes())}, stream,
      [&]<class T>() { cpu::rope(x.as<T>(), rope.inv_freq.as<double>(), shape, inverse); },
      [&]<class T>() {
        cuda::rope(x.as<T>(), rope_table(rope.inv_freq, shape, stream), shape, inverse,
                   stream.handle());
      });
}

static QkvShape qkv_shape(const char* operation, const ConstTensor& qkv, const ConstTensor& q,
                          const ConstTensor& k, const ConstTensor& v) {
  const QkvShape shape{q.shape()[0], q.shape()[1], k.shape()[1], q.shape()[2]};
  check_shape(operation, "k", k, {shape.tokens, shape.groups, shape.head_dim});
  check_shape(operation, "v", v, k.shape());
  check_shape(operation, "qkv", qkv,
              {shape.tokens, (shape.heads + 2 * shape.groups) * shape.head_dim});
  return shape;
}

void qkv_split(Tensor q, Tensor k, Tensor v, ConstTensor qkv, Stream& stream) {
  const QkvShape shape = qkv_shape("qkv_split", qkv, q, k, v);
  dispatch(
      Family::attention, q, moves(qkv, q, k, v), stream,
      [&]<class T>() { cpu::qkv_split(q.as<T>(), k.as<T>(), v.as<T>(), qkv.as<T>(), shape); },
      [&]<class T>() {
        cuda::qkv_split(q.as<T>(), k.as<T>(), v.as<T>(), qkv.as<T>(), shape, stream.handle());
      });
}

void qkv_merge(Tensor qkv, ConstTensor q, ConstTensor k, ConstTensor v, Stream& stream) {
  const QkvShape shape = qkv_shape("qkv_merge", qkv, q, k, v);
  dispatch(
      Family::attention, q, moves(qkv, q, k, v), stream,
      [&]<class T>() { cpu::qkv_merge(qkv.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(), shape); },
      [&]<class T>() {
        cuda::qkv_merge(qkv.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(), shape, stream.handle());
      });
}

void rope_angles(Tensor angles, ConstTensor inv_freq, ConstTensor positions, double magnitude,
                 Stream& stream) {
  const std::int64_t tokens = positions.numel(), rotary_dim = 2 * inv_freq.numel();
  check_shape("rope_angles", "angles", angles, {tokens, rotary_dim});
  dispatch(
      Family::attention, angles, moves(angles), stream,
      [&]<class T>() {
        cpu::rope_angles(angles.as<T>(), inv_freq.as<double>(), positions.as<std::int32_t>(),
                         tokens, rotary_dim, magnitude);
      },
      [&]<class T>() {
        cuda::rope_angles(angles.as<float>(), inv_freq.as<double>(), positions.as<std::int32_t>(),
                          tokens, rotary_dim, magnitude, stream.handle());
      });
}

// Multiplications and additions of products with so many channels together, over the pairs that the
// mask and the window leave; how long documents are is not known here.
static double product_flops(const AttentionShape& s, std::int64_t channels) {
  const auto queries = static_cast<double>(s.q_length), keys = static_cast<double>(s.kv_length);
  double pairs = queries * (s.causal ? keys - (queries - 1) / 2 : keys);
  if (s.window >= 0) {
    // The last query misses `beyond` keys, the one before it one less, and so on; if not causal,
    // the first ones miss as many on the other side.
    const auto beyond = static_cast<double>(std::max<std::int64_t>(0, s.kv_length - 1 - s.window));
    const double fewer = std::min(beyond, queries);
    pairs -= fewer * (beyond + beyond - fewer + 1) / (s.causal ? 2 : 1);
  }
  return 2 * pairs * static_cast<double>(s.sequences * s.heads * channels);
}

// Where queries, keys and values, or their gradients, are.
template <class AnyTensor>
struct Heads {
  AnyTensor q, k, v;

  bool packed() const { return !k; }
  bool paired() const { return k && !v; }
  // The shape, of tensors that lie so.
  AttentionShape laid_out(const AttentionShape& asked) const {
    AttentionShape shape = asked;
    shape.packed = packed();
    shape.paired = paired();
    return shape;
  }
  // pointers(q, k, v)
  template <class T, class Body>
  void with_pointers(const AttentionShape& s, const Body& body) const {
    const auto head = [&](const AnyTensor& heads, std::int64_t n) {
      return heads.reshape({heads.numel() / s.head_dim, s.head_dim})
          .rows(n, n + 1)
          .template as<T>();
    };
    if (packed()) return body(head(q, 0), head(q, s.group()), head(q, s.group() + 1));
    if (paired()) return body(q.template as<T>(), head(k, 0), head(k, 1));
    body(q.template as<T>(), k.template as<T>(), v.template as<T>());
  }
};

static void check_heads(const char* operation, const char* name, const Heads<ConstTensor>& heads,
                        const AttentionShape& s) {
  const std::int64_t tokens = s.sequences * s.q_length;
  if (heads.packed()) {
    check_shape(operation, name, heads.q, {tokens, (s.heads + 2 * s.kv_heads) * s.head_dim});
    if (s.kv_stride != s.q_length)
      fail(Exit::internal, operation, ": ", s.kv_stride, " keys in rows of ", s.q_length,
           " tokens");
    return;
  }
  check_shape(operation, name, heads.q, {tokens, s.heads, s.head_dim});
  const std::int64_t runs = s.kv_slots ? heads.k.shape()[0] / s.kv_stride : s.sequences;
  if (heads.paired())
    return check_shape(operation, "keys and values", heads.k,
                       {runs * s.kv_stride, 2 * s.kv_heads * s.head_dim});
  check_shape(operation, "keys", heads.k, {runs * s.kv_stride, s.kv_heads, s.head_dim});
  check_shape(operation, "values", heads.v, heads.k.shape());
}

static void check_attention(const char* operation, const Heads<ConstTensor>& heads,
                            const ConstTensor& o, const ConstTensor& first_key,
                            const ConstTensor& lse, const AttentionShape& s) {
  check_heads(operation, "q", heads, s);
  check_shape(operation, "o", o, {s.sequences * s.q_length, s.heads, s.head_dim});
  check_shape(operation, "lse", lse, {s.sequences, s.heads, s.q_length});
  if (first_key) check_shape(operation, "first_key", first_key, {s.sequences * s.q_length});
  // Every query sees a key, and the other way round.
  const bool matched = s.causal                           ? s.q_length <= s.kv_length
                       : bool(first_key) || s.window >= 0 ? s.q_length == s.kv_length
                                                          : s.q_length > 0 && s.kv_length > 0;
  if (!matched || s.kv_length > s.kv_stride * s.kv_runs || s.heads % s.kv_heads != 0)
    fail(Exit::internal, operation, ": ", s.q_length, " queries of ", s.heads, " heads over ",
         s.kv_length, " of ", s.kv_stride, " keys of ", s.kv_heads, " heads");
}

static double bytes_of(const Heads<ConstTensor>& heads) {
  double bytes = 0;
  for (const ConstTensor& x : {heads.q, heads.k, heads.v})
    if (x) bytes += static_cast<double>(x.bytes());
  return bytes;
}

void attention_forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                       ConstTensor first_key, const AttentionShape& asked, const Dropout& dropout,
                       Stream& stream) {
  const Heads<ConstTensor> heads{q, k, v};
  const AttentionShape shape = heads.laid_out(asked);
  check_attention("attention_forward", heads, o, first_key, lse, shape);
  Cost cost = moves(o, lse);
  cost.bytes += bytes_of(heads);
  cost.flops = product_flops(shape, shape.head_dim + shape.value_channels());
  void* const work =
      typed_gpu_work(q, stream, [&]<class T>() { return cuda::attention_forward_work<T>(shape); });
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        heads.with_pointers<T>(shape, [&](const T* queries, const T* keys, const T* values) {
          cpu::attention_forward(o.as<T>(), lse.as<T>(), queries, keys, values,
                                 or_null<std::int32_t>(first_key), shape, dropout);
        });
      },
      [&]<class T>() {
        heads.with_pointers<T>(shape, [&](const T* queries, const T* keys, const T* values) {
          cuda::attention_forward(o.as<T>(), lse.as<float>(), queries, keys, values,
                                  or_null<std::int32_t>(first_key), shape, dropout, work,
                                  stream.handle());
        });
      });
}

void attention_backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o,
                        ConstTensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                        ConstTensor first_key, const AttentionShape& asked, const Dropout& dropout,
                        Stream& stream) {
  const Heads<ConstTensor> heads{q, k, v};
  const Heads<Tensor> gradients{dq, dk, dv};
  const AttentionShape shape = heads.laid_out(asked);
  check_attention("attention_backward", heads, o, first_key, lse, shape);
  check_shape("attention_backward", "d_o", d_o, o.shape());
  check_heads("attention_backward", "dq", {dq, dk, dv}, shape);
  if (gradients.packed() != heads.packed() || gradients.paired() != heads.paired())
    fail(Exit::internal, "attention_backward: gradients lie otherwise than what they are of");
  Cost cost = moves(d_o, o, lse);
  cost.bytes += 2 * bytes_of(heads);
  cost.flops = product_flops(shape, 3 * shape.head_dim + 2 * shape.value_channels());
  void* const work =
      typed_gpu_work(q, stream, [&]<class T>() { return cuda::attention_backward_work<T>(shape); });
  // body(dq, dk, dv, q, k, v)
  const auto with_pointers = [&]<class T>(const auto& body) {
    heads.with_pointers<T>(shape, [&](auto*... inputs) {
      gradients.with_pointers<T>(shape, [&](auto*... outputs) { body(outputs..., inputs...); });
    });
  };
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        with_pointers.template operator()<T>([&](T* to_q, T* to_k, T* to_v, const T* queries,
                                                 const T* keys, const T* values) {
          cpu::attention_backward(to_q, to_k, to_v, d_o.as<T>(), o.as<T>(), lse.as<T>(), queries,
                                  keys, values, or_null<std::int32_t>(first_key), shape, dropout);
        });
      },
      [&]<class T>() {
        with_pointers.template operator()<T>(
            [&](T* to_q, T* to_k, T* to_v, const T* queries, const T* keys, const T* values) {
              cuda::attention_backward(to_q, to_k, to_v, d_o.as<T>(), o.as<T>(), lse.as<float>(),
                                       queries, keys, values, or_null<std::int32_t>(first_key),
                                       shape, dropout, work, stream.handle());
            });
      });
}

void attention_bias_backward(Tensor d_bias, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                             ConstTensor q, ConstTensor k, ConstTensor v, ConstTensor first_key,
                             const AttentionShape& asked, const Dropout& dropout, Stream& stream) {
  const Heads<ConstTensor> heads{q, k, v};
  const AttentionShape shape = heads.laid_out(asked);
  check_attention("attention_bias_backward", heads, o, first_key, lse, shape);
  check_shape("attention_bias_backward", "d_o", d_o, o.shape());
  check_shape("attention_bias_backward", "d_bias", d_bias, {shape.heads, 2 * shape.kv_length - 1});
  Cost cost = moves(d_o, o, lse);
  cost.bytes += bytes_of(heads);
  cost.flops = product_flops(shape, shape.head_dim + shape.value_channels());
  void* const work = typed_gpu_work(
      q, stream, [&]<class T>() { return cuda::attention_bias_backward_work<T>(shape); });
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        heads.with_pointers<T>(shape, [&](const T* queries, const T* keys, const T* values) {
          cpu::attention_bias_backward(d_bias.as<T>(), d_o.as<T>(), o.as<T>(), lse.as<T>(), queries,
                                       keys, values, or_null<std::int32_t>(first_key), shape,
                                       dropout);
        });
      },
      [&]<class T>() {
        heads.with_pointers<T>(shape, [&](const T* queries, const T* keys, const T* values) {
          cuda::attention_bias_backward(d_bias.as<float>(), d_o.as<T>(), o.as<T>(), lse.as<float>(),
                                        queries, keys, values, or_null<std::int32_t>(first_key),
                                        shape, dropout, work, stream.handle());
        });
      });
}

static CachedQkvShape check_cached(const CachedAttention& p) {
  const Shape &q = p.q.shape(), &keys = p.keys.shape();
  const CachedQkvShape shape = {
      .qkv = {.tokens = q[0], .heads = q[1], .groups = keys[2], .head_dim = q[2]},
      .sequences = p.slots ? p.slots.shape()[0] : keys[0],
      .capacity = keys[1],
      .runs = p.slots ? p.slots.shape()[1] : 1,
      .rotary_dim = p.angles ? p.angles.shape()[1] : 0,
      .interleaved = p.interleaved};
  check_shape("cached_attention", "qkv", p.qkv, {q[0], (q[1] + 2 * keys[2]) * q[2]});
  check_shape("cached_attention", "keys", p.keys, {keys[0], keys[1], keys[2], q[2]});
  check_shape("cached_attention", "values", p.values, keys);
  check_shape("cached_attention", "positions", p.positions, {q[0]});
  if (p.angles) check_shape("cached_attention", "angles", p.angles, {q[0], shape.rotary_dim});
  if (shape.rotary_dim > q[2] || q[0] % std::max<std::int64_t>(1, shape.sequences) != 0)
    fail(Exit::internal, "cached_attention: ", q[0], " tokens of ", shape.sequences, " sequences, ",
         shape.rotary_dim, " rotated channels of ", q[2]);
  return shape;
}

static void cached_qkv(const CachedAttention& p, const CachedQkvShape& shape, Stream& stream) {
  const auto* positions = p.positions.as<std::int32_t>();
  const auto* slots = or_null<std::int32_t>(p.slots);
  dispatch(
      Family::attention, p.q, {.bytes = 2.0 * static_cast<double>(p.qkv.bytes())}, stream,
      [&]<class T>() {
        cpu::cached_qkv(p.q.as<T>(), p.keys.as<T>(), p.values.as<T>(), p.qkv.as<T>(),
                        or_null<T>(p.angles), positions, slots, shape);
      },
      [&]<class T>() {
        cuda::cached_qkv(p.q.as<T>(), p.keys.as<T>(), p.values.as<T>(), p.qkv.as<T>(),
                         or_null<float>(p.angles), positions, slots, shape, stream.handle());
      });
}

// One kernel does both, but where a token may be another's past.
static void token_attention(const CachedAttention& p, Stream& stream) {
  const Stream::Working working(stream, Family::attention);
  if constexpr (kWithCuda && cuda::kHopper)
    with_gpu_type(p.q.dtype(), [&]<class T>() {
      cuda::token_attention<T>({.o = p.o.as<T>(),
                                .keys = p.keys.as<T>(),
                                .values = p.values.as<T>(),
                                .qkv = p.qkv.as<T>(),
                                .angles = or_null<float>(p.angles),
                                .rotary_dim = p.angles ? p.angles.shape()[1] : 0,
                                .interleaved = p.interleaved,
                                .first_key = or_null<std::int32_t>(p.first_key),
                                .is_cached = p.repeats},
                               p.shape, stream.handle());
    });
}

// A sequence's slots one behind the other.
static void join_slots(const Tensor& joined, const Tensor& slots, const ConstTensor& numbers,
                       Stream& stream) {
  const auto as_rows = [](const Tensor& x) {
    return x.reshape({x.shape()[0], x.numel() / x.shape()[0]});
  };
  const ConstTensor used = numbers.reshape({numbers.numel()}).rows(0, joined.shape()[0]);
  embedding_forward(as_rows(joined), used, as_rows(slots), 0, false, stream);
}

void cached_attention(const CachedAttention& p, Stream& stream) {
  const CachedQkvShape shape = check_cached(p);
  bool at_once = false;
  if constexpr (kWithCuda && cuda::kHopper)
    at_once = p.o.device() == Device::cuda && !p.needs_lse && cuda::token_attention_fits(p.shape);
  if (!at_once || p.repeats) cached_qkv(p, shape, stream);
  if (at_once) return token_attention(p, stream);
  const bool joins = bool(p.joined_keys);
  AttentionShape attended = p.shape;
  if (joins) {
    join_slots(p.joined_keys, p.keys, p.slots, stream);
    join_slots(p.joined_values, p.values, p.slots, stream);
    attended.kv_slots = nullptr;
    attended.kv_runs = 1;
    attended.kv_stride = p.joined_keys.shape()[0] * p.joined_keys.shape()[1];
  }
  const Tensor &keys = joins ? p.joined_keys : p.keys, &values = joins ? p.joined_values : p.values;
  const Shape& slots = keys.shape();
  const Shape rows{slots[0] * slots[1], slots[2], slots[3]};
  attention_forward(p.o, p.lse, p.q, keys.reshape(rows), values.reshape(rows), p.first_key,
                    attended, {}, stream);
}

}  // namespace mt
