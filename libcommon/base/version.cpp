// What --version prints.  The only file that knows the version, so that a new one rebuilds little.
#include <sstream>
#include <string>

#include "base/command.h"

namespace mt {

// The SIMD extensions that the machine has, of those that kernels may choose between.
static std::string simd_levels() {
  std::string levels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) levels += " sse4.2";
  if (__builtin_cpu_supports("avx2")) levels += " avx2";
  if (__builtin_cpu_supports("fma")) levels += " fma";
  if (__builtin_cpu_supports("avx512f")) levels += " avx512f";
  if (__builtin_cpu_supports("avx512bw")) levels += " avx512bw";
  if (__builtin_cpu_supports("avx512bf16")) levels += " avx512bf16";
#elif defined(__aarch64__)
  levels = " neon";
#endif
  return levels.empty() ? " none" : levels;
}

std::string version_text(const std::string& program) {
  std::ostringstream out;
  out << program << " " << MT_VERSION << MT_COMMIT << "\n";
#if defined(__clang__)
  out << "compiler: clang " << __clang_version__ << "\n";
#else
  out << "compiler: GCC " << __VERSION__ << "\n";
#endif
  out << "SIMD:" << simd_levels() << "\n";
  return std::move(out).str();
}

}  // namespace mt
