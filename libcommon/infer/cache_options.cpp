#include "infer/cache_options.h"

#include "base/command.h"
#include "formats/hugging_face/cache_scales.h"
#include "formats/load_model.h"

namespace mt {

void CacheOptions::add_to(CommandLine& cl) {
  cl.option(
      "--kv-cache-dtype", &dtype, "TYPE",
      "what keys and values of tokens are kept in while a text is continued: auto, in what is "
      "computed in; fp8, that is fp8_e4m3, in eight bits, by the scales k_scale and v_scale "
      "of a folder of Hugging Face's that has them, else by 1",
      one_of({"auto", "fp8", "fp8_e4m3"}));
}

CacheForm CacheOptions::form(const LoadedModel& loaded) const {
  if (!asked()) return {};
  return {.in_codes = true, .scales = cache_scales_in(loaded.path, loaded.model->config())};
}

}  // namespace mt
