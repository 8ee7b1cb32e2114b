#include "ops/coded_attention.h"

#include "kernels/cached_qkv.h"
#include "kernels/gpu.h"
#include "kernels/token_attention.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {
namespace {

// q, and keys and values in rows of their own.
void split_rows(const CodedAttention& p, Stream& stream) {
  const Shape &q = p.q.shape(), &keys = p.keys.shape();
  const CachedQkvShape shape = {
      .qkv = {.tokens = q[0], .heads = q[1], .groups = keys[2], .head_dim = q[2]},
      .sequences = p.slots.shape()[0],
      .capacity = keys[1],
      .runs = p.slots.shape()[1],
      .rotary_dim = p.angles ? p.angles.shape()[1] : 0,
      .interleaved = p.interleaved,
      .of_tokens = true};
  const auto* const positions = p.positions.as<std::int32_t>();
  dispatch(
      Family::attention, p.q, {.bytes = 2.0 * static_cast<double>(p.qkv.bytes())}, stream,
      [&]<class T>() {
        cpu::cached_qkv(p.q.as<T>(), p.own_keys.as<T>(), p.own_values.as<T>(), p.qkv.as<T>(),
                        or_null<T>(p.angles), positions, nullptr, shape);
      },
      [&]<class T>() {
        cuda::cached_qkv(p.q.as<T>(), p.own_keys.as<T>(), p.own_values.as<T>(), p.qkv.as<T>(),
                         or_null<float>(p.angles), positions, nullptr, shape, stream.handle());
      });
}

template <class Code>
CachedCodes<Code> codes_of(const CodedAttention& p) {
  const Shape& keys = p.keys.shape();
  return {.keys = static_cast<Code*>(p.keys.data()),
          .values = static_cast<Code*>(p.values.data()),
          .slots = p.slots.as<std::int32_t>(),
          .capacity = keys[1],
          .runs = p.slots.shape()[1],
          .width = keys[2] * keys[3],
          .scales = p.scales};
}

void put_rows(const CodedAttention& p, Stream& stream) {
  const auto rows = [&]<class T>() {
    return PutCodes<T>{.keys = p.own_keys.as<T>(),
                       .values = p.own_values.as<T>(),
                       .positions = p.positions.as<std::int32_t>(),
                       .tokens = p.q.shape()[0],
                       .of_sequence = p.shape.q_length};
  };
  dispatch(
      Family::attention, p.q, {.bytes = 3.0 * static_cast<double>(p.own_keys.bytes())}, stream,
      [&]<class T>() { cpu::put_codes(codes_of<std::uint8_t>(p), rows.template operator()<T>()); },
      [&]<class T>() {
        cuda::put_codes(codes_of<std::uint8_t>(p), rows.template operator()<T>(), stream.handle());
      });
}

void get_rows(const CodedAttention& p, std::int64_t sequence, Stream& stream) {
  const auto rows = [&]<class T>() {
    const std::int32_t* const lengths = p.shape.kv_lengths;
    return GetCodes<T>{.keys = p.joined_keys.as<T>(),
                       .values = p.joined_values.as<T>(),
                       .sequence = sequence,
                       .most = p.shape.kv_length,
                       .length = lengths != nullptr ? lengths + sequence : nullptr};
  };
  dispatch(
      Family::attention, p.q, {.bytes = 3.0 * static_cast<double>(p.joined_keys.bytes())}, stream,
      [&]<class T>() {
        cpu::get_codes(rows.template operator()<T>(), codes_of<const std::uint8_t>(p));
      },
      [&]<class T>() {
        cuda::get_codes(rows.template operator()<T>(), codes_of<const std::uint8_t>(p),
                        stream.handle());
      });
}

void token_attention(const CodedAttention& p, Stream& stream) {
  const Stream::Working working(stream, Family::attention);
  with_gpu_type(p.q.dtype(), [&]<class T>() {
    cuda::token_attention<T>({.o = p.o.as<T>(),
                              .qkv = p.qkv.as<T>(),
                              .angles = or_null<float>(p.angles),
                              .rotary_dim = p.angles ? p.angles.shape()[1] : 0,
                              .interleaved = p.interleaved,
                              .first_key = or_null<std::int32_t>(p.first_key),
                              .is_cached = true,
                              .key_codes = static_cast<const std::uint8_t*>(p.keys.data()),
                              .value_codes = static_cast<const std::uint8_t*>(p.values.data()),
                              .scales = p.scales},
                             p.shape, stream.handle());
  });
}

}  // namespace

// One sequence after the other: what its codes stand for has place for one.
void coded_attention(const CodedAttention& p, Stream& stream) {
  const Shape& keys = p.keys.shape();
  split_rows(p, stream);
  put_rows(p, stream);
  if constexpr (kWithCuda && cuda::kHopper)
    if (p.o.device() == Device::cuda && !p.needs_lse && size_of(p.q.dtype()) == 2 &&
        cuda::token_attention_fits(p.shape))
      return token_attention(p, stream);
  const std::int64_t length = p.shape.q_length;
  const Shape joined{p.joined_keys.shape()[0] * keys[1], keys[2], keys[3]};
  AttentionShape one = p.shape;
  one.sequences = 1;
  one.kv_slots = nullptr;
  one.kv_runs = 1;
  one.kv_stride = joined[0];
  for (std::int64_t i = 0; i < p.shape.sequences; ++i) {
    if (one.kv_lengths != nullptr) one.kv_lengths = p.shape.kv_lengths + i;
    get_rows(p, i, stream);
    ConstTensor first_key = p.first_key;
    if (first_key) first_key = first_key.rows(i * length, (i + 1) * length);
    attention_forward(p.o.rows(i * length, (i + 1) * length), p.lse.rows(i, i + 1),
                      p.q.rows(i * length, (i + 1) * length), p.joined_keys.reshape(joined),
                      p.joined_values.reshape(joined), first_key, one, {}, stream);
  }
}

}  // namespace mt
