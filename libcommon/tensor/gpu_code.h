// What GPUs a build has code for, as MT_GPUS has it (kernels/gpus.cmake), and what is said to one
// that it does not serve.  Of numbers and texts alone, so that no GPU need be there.
#pragma once

#include <string>
#include <string_view>

namespace mt {

struct Gpu {
  std::string name;
  int capability = 0;  // 86 is 8.6
};

// What the code was compiled for that a GPU of this capability runs, as CUDA chooses it; 0: there
// is none.  `built`: such as "80-real,90a-real,100-virtual", or "check".
int code_for(int capability, std::string_view built);

// A line that says why the GPU computes nothing of this build, or nothing in bf16, and what helps;
// empty where it does.
std::string without_code(const Gpu& gpu, std::string_view built);
std::string without_bf16(const Gpu& gpu, std::string_view built);
std::string without_fp8(const Gpu& gpu);  // likewise, products of eight bits

// "80, 90a, 100-virtual".
std::string in_words(std::string_view built);

}  // namespace mt
