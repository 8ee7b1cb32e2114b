#include "kernels/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace mt::cpu {
namespace {

Isa widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2")) return Isa::avx2;
#endif
  return Isa::base;
}

Isa allowed() {
  const char* name = std::getenv("MT_CPU_ISA");
  if (name && std::string_view(name) == "base") return Isa::base;
  if (name && std::string_view(name) == "avx2") return Isa::avx2;
  return Isa::avx512;
}

}  // namespace

Isa isa() {
  static const Isa chosen = std::min(widest(), allowed());
  return chosen;
}

}  // namespace mt::cpu
