#include "post/policy/drawn_texts.h"

#include <algorithm>
#include <deque>

#include "infer/engine.h"

namespace mt {

static DrawnText drawn_of(const Completion& completion, const PolicyPrompt& prompt) {
  DrawnText drawn{.text = completion.text(), .truncated = !completion.end_token()};
  Example& text = drawn.rollout.text;
  text.ids = completion.ids();
  if (completion.end_token()) text.ids.push_back(*completion.end_token());
  text.learnt.assign(text.ids.size(), true);
  std::fill_n(text.learnt.begin(), prompt.ids.size(), false);
  text.file = prompt.file;
  text.line = prompt.line;
  return drawn;
}

std::vector<DrawnText> draw_texts(const Model& model, const CompletionModel& about,
                                  std::span<const PolicyPrompt* const> prompts, std::int64_t first,
                                  const DrawOptions& options) {
  const std::int64_t texts = std::ssize(prompts) * options.group;
  // A new one each time: what an engine keeps of texts is of the weights that have seen them.
  Engine engine(model, {.vocab_size = about.vocab_size,
                        .limits = {.max_requests = std::min(texts, CachedPass::kTogether),
                                   .threads = options.threads}});
  std::deque<Completion> completions;  // the engine points into it
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::int64_t room = options.seq_length - std::ssize(prompts[i]->ids);
    CompletionOptions asked{
        .num_tokens = options.most_tokens > 0 ? std::min(room, options.most_tokens) : room};
    static_cast<Sampling&>(asked.sampling) = options.sampling;
    for (std::int64_t member = 0; member < options.group; ++member)
      engine.submit(
          completions.emplace_back(about, prompts[i]->ids, asked,
                                   static_cast<std::uint32_t>(first + static_cast<std::int64_t>(i)),
                                   static_cast<std::uint32_t>(member)));
  }
  while (engine.step())
    if (options.ends()) return {};
  std::vector<DrawnText> drawn;
  for (std::size_t i = 0; i < completions.size(); ++i)
    drawn.push_back(
        drawn_of(completions[i], *prompts[i / static_cast<std::size_t>(options.group)]));
  return drawn;
}

}  // namespace mt
