#include "post/policy/drawn_texts.h"

#include <algorithm>
#include <deque>

#include "comm/group.h"
#include "infer/engine.h"

namespace mt {

static DrawnText drawn_of(const Completion& completion, const PolicyPrompt& prompt) {
  DrawnText drawn{.text = completion.text()};
  drawn.rollout.truncated = !completion.end_token();
  Example& text = drawn.rollout.text;
  text.ids = completion.ids();
  if (completion.end_token()) text.ids.push_back(*completion.end_token());
  text.learnt.assign(text.ids.size(), true);
  std::fill_n(text.learnt.begin(), prompt.ids.size(), false);
  for (const double score : completion.scores())
    drawn.rollout.generated.push_back(static_cast<float>(std::min(0.0, score)));
  return drawn;
}

std::optional<std::vector<DrawnText>> draw_texts(const Model& model, const CompletionModel& about,
                                                 std::span<const PolicyPrompt* const> prompts,
                                                 std::int64_t first, const DrawOptions& options) {
  if (prompts.empty()) return std::vector<DrawnText>();
  const std::int64_t texts = std::ssize(prompts) * options.group;
  // A new one each time: what an engine keeps of texts is of the weights that have seen them.
  Engine engine(model, {.vocab_size = about.vocab_size,
                        .limits = {.max_requests = std::min(texts, CachedPass::kTogether),
                                   .threads = options.threads}});
  std::deque<Completion> completions;  // the engine points into it
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::int64_t room = options.seq_length - std::ssize(prompts[i]->ids);
    CompletionOptions asked{
        .num_tokens = options.most_tokens > 0 ? std::min(room, options.most_tokens) : room,
        .scored = options.scored};
    static_cast<Sampling&>(asked.sampling) = options.sampling;
    for (std::int64_t member = options.first_text; member < options.first_text + options.group;
         ++member)
      engine.submit(
          completions.emplace_back(about, prompts[i]->ids, asked,
                                   static_cast<std::uint32_t>(first + static_cast<std::int64_t>(i)),
                                   static_cast<std::uint32_t>(member)));
  }
  while (engine.step())
    if (options.ends()) return std::nullopt;
  std::vector<DrawnText> drawn;
  for (std::size_t i = 0; i < completions.size(); ++i)
    drawn.push_back(
        drawn_of(completions[i], *prompts[i / static_cast<std::size_t>(options.group)]));
  return drawn;
}

// --- Of several ranks ---------------------------------------------------------------------------

// A text as numbers: how many of each kind follow, and these.
static void put_text(const DrawnText& drawn, std::vector<double>& numbers) {
  const Rollout& one = drawn.rollout;
  for (const std::size_t count :
       {one.text.ids.size(), static_cast<std::size_t>(one.prompt_tokens()), one.generated.size(),
        one.reference.size(), drawn.judged.size(), drawn.text.size(),
        static_cast<std::size_t>(one.truncated)})
    numbers.push_back(static_cast<double>(count));
  numbers.insert(numbers.end(), one.text.ids.begin(), one.text.ids.end());
  numbers.insert(numbers.end(), one.generated.begin(), one.generated.end());
  numbers.insert(numbers.end(), one.reference.begin(), one.reference.end());
  numbers.insert(numbers.end(), drawn.judged.begin(), drawn.judged.end());
  for (const char c : drawn.text) numbers.push_back(static_cast<unsigned char>(c));
}

static DrawnText take_text(std::span<const double>& numbers) {
  const auto take = [&] {
    const double number = numbers.front();
    numbers = numbers.subspan(1);
    return number;
  };
  const auto count = [&] { return static_cast<std::size_t>(take()); };
  const std::size_t ids = count(), prompt = count(), generated = count(), references = count(),
                    judges = count(), bytes = count();
  DrawnText drawn;
  drawn.rollout.truncated = take() != 0;
  Example& text = drawn.rollout.text;
  for (std::size_t i = 0; i < ids; ++i) {
    text.ids.push_back(static_cast<std::int32_t>(take()));
    text.learnt.push_back(i >= prompt);
  }
  for (std::size_t i = 0; i < generated; ++i)
    drawn.rollout.generated.push_back(static_cast<float>(take()));
  for (std::size_t i = 0; i < references; ++i)
    drawn.rollout.reference.push_back(static_cast<float>(take()));
  for (std::size_t i = 0; i < judges; ++i) drawn.judged.push_back(take());
  for (std::size_t i = 0; i < bytes; ++i)
    drawn.text += static_cast<char>(static_cast<unsigned char>(take()));
  return drawn;
}

std::optional<std::vector<DrawnText>> all_texts(Group& ranks,
                                                std::optional<std::vector<DrawnText>> own) {
  if (ranks.size() == 1) return own;
  const auto sum = [&](std::vector<double>& numbers) {
    ranks.all_reduce({numbers.data(), DType::f64, {std::ssize(numbers)}}).wait();
  };
  std::vector<double> numbers;
  if (own)
    for (const DrawnText& one : *own) put_text(one, numbers);
  std::vector<double> sizes(static_cast<std::size_t>(ranks.size()) + 1);  // the last: have ended
  sizes[static_cast<std::size_t>(ranks.rank())] = static_cast<double>(numbers.size());
  sizes.back() = own ? 0 : 1;
  sum(sizes);
  if (sizes.back() > 0) return std::nullopt;
  std::size_t before = 0, total = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]);
    if (rank < ranks.rank()) before += size;
    total += size;
  }
  numbers.insert(numbers.begin(), before, 0);
  numbers.resize(total);
  sum(numbers);
  std::vector<DrawnText> all;
  for (std::span<const double> left(numbers); !left.empty();) all.push_back(take_text(left));
  return all;
}

}  // namespace mt
