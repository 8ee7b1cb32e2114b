// kernels/mamba_shape.h: the sizes of a Mamba-2's mixer (Dao, Gu: arXiv:2405.21060, section 7), and
// where its parts lie in a token's row.
//   projected   z | x | B | C | dt   what the layer's first matrix makes: z gates, dt are the steps
//   mixed           x | B | C        the middle of it behind the convolution
// Head h reads the B and C of group h groups / heads.  A shape that is not gated has no z.
#pragma once

#include <cstdint>

namespace mt {

struct MambaShape {
  std::int64_t sequences = 0, length = 0;  // tokens of each
  std::int64_t heads = 0, head_dim = 0, groups = 0, state_dim = 0;
  bool gated = true;
  std::int64_t taps = 4;     // tokens that a convolution sees
  std::int64_t chunk = 128;  // tokens between which the scan computes products of all pairs

  constexpr std::int64_t tokens() const { return sequences * length; }
  constexpr std::int64_t inner() const { return heads * head_dim; }
  constexpr std::int64_t states() const { return groups * state_dim; }
  constexpr std::int64_t mixed() const { return inner() + 2 * states(); }
  constexpr std::int64_t projected() const { return dt_of_projected() + heads; }
  // Columns of the parts that do not come first.
  constexpr std::int64_t b_of_mixed() const { return inner(); }
  constexpr std::int64_t c_of_mixed() const { return inner() + states(); }
  constexpr std::int64_t mixed_of_projected() const { return gated ? inner() : 0; }
  constexpr std::int64_t dt_of_projected() const { return mixed_of_projected() + mixed(); }

  constexpr std::int64_t group_heads() const { return heads / groups; }
  constexpr std::int64_t chunks() const { return (length + chunk - 1) / chunk; }  // of a sequence
  constexpr std::int64_t end_of(std::int64_t begin) const {  // of the chunk that begins there
    return begin + chunk < length ? begin + chunk : length;
  }
  constexpr std::int64_t state() const { return head_dim * state_dim; }  // elements, of a head
};

// CacheSlots: where in a cache lies what sequences had before their tokens.  One whose first token
// stands at position 0 had nothing, whatever lies there.
struct CacheSlots {
  const std::int32_t* positions = nullptr;  // [tokens]
  const std::int32_t* slots = nullptr;      // [sequences]; null: `slot`, of the one sequence
  std::int64_t slot = 0;

  constexpr std::int64_t of(std::int64_t sequence) const {
    return slots != nullptr ? slots[sequence] : slot;
  }
  constexpr bool begins(std::int64_t sequence, std::int64_t length) const {
    return positions[sequence * length] == 0;
  }
};

}  // namespace mt
