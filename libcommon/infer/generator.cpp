#include "infer/generator.h"

#include <algorithm>

namespace mt {

std::vector<double> Generator::next(std::span<const std::int32_t> ids) {
  const ConstTensor logits = runner_.next_logits(ids);
  std::vector<double> values(static_cast<std::size_t>(vocab_size_));
  with_float_type(logits.dtype(), [&]<class T>() {
    std::ranges::copy(logits.span<T>().first(values.size()), values.begin());
  });
  return values;
}

void Generator::generate(std::vector<std::int32_t> prompt, std::int64_t count, std::uint32_t text,
                         const std::function<void(std::int32_t)>& emit) {
  std::vector<std::int32_t>& seen = prompt;
  const std::int64_t room = runner_.max_tokens();
  std::size_t fresh = seen.size();  // tokens that the cache does not hold yet
  runner_.start();
  for (std::int64_t i = 0; i < count; ++i) {
    if (runner_.length() + static_cast<std::int64_t>(fresh) > room) {
      runner_.start();
      fresh = std::min(seen.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, room / 2)));
    }
    const std::int32_t token = sample_token(next(std::span(seen).last(fresh)), options_,
                                            {text, static_cast<std::uint32_t>(i)});
    if (token == eod_) return;
    emit(token);
    seen.push_back(token);
    fresh = 1;
  }
}

}  // namespace mt
