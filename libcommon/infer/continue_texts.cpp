#include "infer/continue_texts.h"

#include <deque>

namespace mt {

std::vector<std::vector<std::string>> continue_texts(
    Engine& engine, const CompletionModel& model,
    std::span<const std::vector<std::int32_t>> prompts, const CompletionOptions& options,
    std::int64_t samples, std::uint32_t first_prompt,
    std::span<const std::shared_ptr<const ImageStates>> images) {
  std::deque<Completion> completions;  // the engine points into it
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CompletionOptions asked = options;
    if (!images.empty()) asked.images = images[i];
    for (std::int64_t k = 0; k < samples; ++k)
      engine.submit(completions.emplace_back(model, prompts[i], asked,
                                             first_prompt + static_cast<std::uint32_t>(i),
                                             static_cast<std::uint32_t>(k)));
  }
  while (engine.step()) continue;
  std::vector<std::vector<std::string>> texts(prompts.size());
  auto next = completions.begin();
  for (std::vector<std::string>& of_prompt : texts)
    for (std::int64_t k = 0; k < samples; ++k) of_prompt.push_back((next++)->text());
  return texts;
}

}  // namespace mt
