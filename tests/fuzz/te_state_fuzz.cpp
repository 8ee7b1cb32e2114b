// Any bytes as what a module of Transformer Engine's remembers: refused as bad data, or its scales
// are those of what is written of them.
//
// Parser: libcommon/ckpt/te_state.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "ckpt/te_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    const std::string state(reinterpret_cast<const char*>(input), size);
    const auto scales = mt::decode_te_state(state, "fuzz");
    if (!scales) return 0;
    const auto again = mt::decode_te_state(mt::encode_te_state({}, *scales), "again");
    const auto same = [](const float* a, const float* b, std::size_t count) {
      return std::memcmp(a, b, count * sizeof(float)) == 0;
    };
    if (!again || !same(scales->scales.data(), again->scales.data(), 3)) std::abort();
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<float>&a = scales->amaxes[i], &b = again->amaxes[i];
      if (a.size() != b.size() || (!a.empty() && !same(a.data(), b.data(), a.size()))) std::abort();
    }
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
