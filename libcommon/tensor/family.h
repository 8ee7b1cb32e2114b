// Family: what kind of work an operation is, for counts and times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mt {

enum class Family : std::uint8_t {
  product,    // of matrices
  attention,  // with rotary positions, and the order of queries, keys and values
  norm,
  activation,
  cross_entropy,
  embedding,
  elementwise,  // sums, copies, zeroes, dropout, sampling
  optimizer,
  communication,
};
inline constexpr std::array kFamilyNames = {"products",     "attention",     "norms",
                                            "activations",  "cross-entropy", "embedding",
                                            "element-wise", "optimizer",     "communication"};
inline constexpr std::size_t kFamilies = kFamilyNames.size();

// One T for each family.
template <class T>
struct PerFamily : std::array<T, kFamilies> {
  using std::array<T, kFamilies>::operator[];
  T& operator[](Family family) { return (*this)[static_cast<std::size_t>(family)]; }
  const T& operator[](Family family) const { return (*this)[static_cast<std::size_t>(family)]; }
};

}  // namespace mt
