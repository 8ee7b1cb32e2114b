// kernels/gemm_cache.h: which of cuBLASLt's algorithms were the fastest, on disk, so that only the
// first run on a machine has to time them.  A line a problem: its name, a space, and the 64 bytes
// of the algorithm in hexadecimal, as one version of cuBLASLt on one kind of GPU means them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mt::cuda {

using GemmAlgorithm = std::array<std::uint64_t, 8>;  // the bytes of a cublasLtMatmulAlgo_t

class GemmCache {
 public:
  // path: the file, which need not exist; empty for none.  Lines unlike the above are left out.
  explicit GemmCache(std::string path);

  std::optional<GemmAlgorithm> find(const std::string& problem) const;
  // Also at the file's end; where that cannot be written, the next run searches again.
  void add(const std::string& problem, const GemmAlgorithm& algorithm);

 private:
  std::string path_;
  std::map<std::string, GemmAlgorithm> algorithms_;
};

}  // namespace mt::cuda
