#include "tensor/gpu_code.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace mt {
namespace {

// An element of the list, such as 90a-real.
struct Code {
  int capability = 0;
  bool exact = false, is_ptx = false;

  explicit Code(std::string_view text) {
    const auto end = std::from_chars(text.begin(), text.end(), capability).ptr;
    const std::string_view rest(end, text.end());
    exact = rest.starts_with('a');
    is_ptx = rest.ends_with("-virtual");
  }
  bool runs_on(int gpu) const {
    if (exact) return gpu == capability;
    return capability <= gpu && (is_ptx || capability / 10 == gpu / 10);
  }
};

template <class F>
void for_each(std::string_view built, const F& f) {
  while (!built.empty()) {
    const std::string_view one = built.substr(0, built.find(','));
    f(one);
    built.remove_prefix(std::min(built.size(), one.size() + 1));
  }
}

std::string called(const Gpu& gpu) {
  return concat(gpu.name, " (compute capability ", gpu.capability / 10, ".", gpu.capability % 10,
                ")");
}

}  // namespace

int code_for(int capability, std::string_view built) {
  int own = 0, translated = 0;
  for_each(built, [&](std::string_view one) {
    const Code code(one);
    int& best = code.is_ptx ? translated : own;
    if (code.runs_on(capability)) best = std::max(best, code.capability);
  });
  return own > 0 ? own : translated;
}

std::string without_code(const Gpu& gpu, std::string_view built) {
  if (code_for(gpu.capability, built) > 0) return {};
  if (gpu.capability < 75)
    return concat(called(gpu), " is older than Turing, 7.5, the first that there is code for");
  return concat(called(gpu), ": this build has code ",
                built == "check" ? "to be checked" : "for " + in_words(built),
                " alone; configure it with -DMT_GPUS=", gpu.capability,
                gpu.capability == 90 ? "a" : "", ", or all");
}

std::string without_bf16(const Gpu& gpu, std::string_view built) {
  const int code = code_for(gpu.capability, built);
  if (code == 0 || code >= 80) return {};
  return concat(called(gpu), " runs code for ", code,
                ", which has no products of bf16; take --fp16, or --dtype fp32");
}

std::string without_fp8(const Gpu& gpu) {
  if (gpu.capability >= 89) return {};
  return concat(called(gpu), " has no products of eight bits; Ada, 8.9, is the first that has");
}

std::string in_words(std::string_view built) {
  std::string words;
  for_each(built, [&](std::string_view one) {
    if (one.ends_with("-real")) one.remove_suffix(5);
    words.append(words.empty() ? "" : ", ").append(one);
  });
  return words;
}

}  // namespace mt
