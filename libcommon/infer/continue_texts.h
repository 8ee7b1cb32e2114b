// continue_texts: what follows some prompts, made many at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/engine.h"

namespace mt {

// The texts of each prompt in its order, so many of each, without stop texts.  `first_prompt`: the
// number of the first one in the run, by which its samples are drawn.  `images`: what was made of
// those that each prompt has places for; of none, if empty.
std::vector<std::vector<std::string>> continue_texts(
    Engine& engine, const CompletionModel& model,
    std::span<const std::vector<std::int32_t>> prompts, const CompletionOptions& options,
    std::int64_t samples, std::uint32_t first_prompt,
    std::span<const std::shared_ptr<const ImageStates>> images = {});

}  // namespace mt
