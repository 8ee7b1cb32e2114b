// kernels/delta_shape.h: the sizes of a mixer with the gated delta rule (Yang, Kautz, Hatamizadeh:
// arXiv:2412.06464), and where its parts lie in a token's row.
//   projected   q | k | v | z | beta | alpha   what the layer's first matrix makes: z gates
//   mixed       q | k | v                      the beginning of it behind the convolution
// Each key head has a query and a key, and value_heads / key_heads value heads, one after another,
// which read these.
#pragma once

#include <cstdint>

namespace mt {

inline constexpr std::int64_t kMostDeltaDim = 256;  // of keys and values, on a GPU

struct DeltaShape {
  std::int64_t sequences = 0, length = 0;  // tokens of each
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t taps = 4;  // tokens that the convolution sees

  constexpr std::int64_t tokens() const { return sequences * length; }
  constexpr std::int64_t keys() const { return key_heads * key_dim; }
  constexpr std::int64_t values() const { return value_heads * value_dim; }
  constexpr std::int64_t mixed() const { return 2 * keys() + values(); }
  constexpr std::int64_t projected() const { return alpha_of_projected() + value_heads; }
  // Columns of the parts that do not come first.
  constexpr std::int64_t k_of_mixed() const { return keys(); }
  constexpr std::int64_t v_of_mixed() const { return 2 * keys(); }
  constexpr std::int64_t mixed_of_projected() const { return 0; }
  constexpr std::int64_t z_of_projected() const { return mixed(); }
  constexpr std::int64_t beta_of_projected() const { return mixed() + values(); }
  constexpr std::int64_t alpha_of_projected() const { return beta_of_projected() + value_heads; }

  constexpr std::int64_t group_heads() const { return value_heads / key_heads; }
  constexpr std::int64_t state() const { return key_dim * value_dim; }  // elements, of a value head
};

}  // namespace mt
