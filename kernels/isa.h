// kernels/isa.h: one body of code, three instruction sets, the widest chosen at run time.
// The bits of a result are the same on all of them: nothing is contracted or reordered by the
// compiler, sums go over 16 lanes in a fixed order (loops.h), and no instruction estimates.
#pragma once

#include <cstdint>

namespace mt::cpu {

enum class Isa : std::uint8_t { base, avx2, avx512 };

// The widest that runs here, or the one that the environment variable MT_CPU_ISA names (base, avx2,
// avx512) if that is narrower.  The same for the life of the process.
Isa isa();

#if defined(__x86_64__)
template <class Body>
[[gnu::flatten, gnu::target("avx2")]] void run_avx2(const Body& body) {
  body();
}
template <class Body>
[[gnu::flatten, gnu::target("avx512f,avx512dq,avx512vl,avx512bw")]] void run_avx512(
    const Body& body) {
  body();
}
#endif

// Calls body(), which is compiled once for each instruction set with all that it calls inline.
template <class Body>
void run(const Body& body) {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return run_avx512(body);
  if (isa() == Isa::avx2) return run_avx2(body);
#endif
  body();
}

}  // namespace mt::cpu
