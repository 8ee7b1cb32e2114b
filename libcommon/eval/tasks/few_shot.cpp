#include "eval/tasks/few_shot.h"

#include <bit>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "text/chat/chat_python.h"

namespace mt {

// --- Python's generator --------------------------------------------------------------------------

static RandomState python_state(std::uint64_t seed) {
  const std::uint32_t words[] = {static_cast<std::uint32_t>(seed),
                                 static_cast<std::uint32_t>(seed >> 32)};
  return RandomState(std::span(words).first(words[1] == 0 ? 1 : 2));
}

PythonRandom::PythonRandom(std::uint64_t seed) : random_(python_state(seed)) {}

std::size_t PythonRandom::below(std::size_t n) {
  const int bits = std::bit_width(n);
  for (;;) {
    std::uint64_t value = 0;
    if (bits <= 32)
      value = random_.next32() >> (32 - bits);
    else {
      value = random_.next32();
      value |= std::uint64_t{random_.next32() >> (64 - bits)} << 32;
    }
    if (value < n) return value;
  }
}

std::vector<std::size_t> PythonRandom::sample(std::size_t n, std::size_t count) {
  std::size_t small = 21;  // of a set that is no larger than a list of so many
  if (count > 5) {
    std::size_t power = 1;
    while (power < 3 * count) power *= 4;
    small += power;
  }
  std::vector<std::size_t> chosen;
  if (n <= small) {
    std::vector<std::size_t> left(n);
    std::iota(left.begin(), left.end(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t j = below(n - i);
      chosen.push_back(left[j]);
      left[j] = left[n - i - 1];
    }
    return chosen;
  }
  std::unordered_set<std::size_t> seen;
  while (chosen.size() < count)
    if (const std::size_t j = below(n); seen.insert(j).second) chosen.push_back(j);
  return chosen;
}

// --- The examples --------------------------------------------------------------------------------

FewShot::FewShot(std::vector<ChatValue> pool, FewShotOptions options)
    : pool_(std::move(pool)), options_(std::move(options)), random_(options_.seed) {}

void FewShot::refuse() const {
  fail(Exit::bad_data, options_.place, ": ", pool_.size(), " documents are too few for ",
       options_.count, " examples",
       options_.draws_itself ? ", none of which is the document itself" : "");
}

std::vector<ChatValue> FewShot::sample(std::span<const ChatValue> pool, std::size_t count) {
  if (pool.size() < count) refuse();
  std::vector<ChatValue> chosen;
  if (options_.first_n) {
    chosen.assign(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(count));
  } else {
    for (const std::size_t i : random_.sample(pool.size(), count)) chosen.push_back(pool[i]);
  }
  return chosen;
}

std::vector<ChatValue> FewShot::next(const ChatValue& doc) {
  const auto count = static_cast<std::size_t>(options_.count);
  if (count == 0) return {};
  if (!options_.draws_itself) return sample(pool_, count);
  const auto is_doc = [&](const ChatValue& other) { return python_equal(other, doc); };
  const auto others = [&] {
    std::vector<ChatValue> pool = pool_;
    std::erase_if(pool, is_doc);
    return pool;
  };
  if (options_.first_n) return sample(others(), count);
  std::vector<ChatValue> chosen = sample(pool_, count + 1);
  std::erase_if(chosen, is_doc);
  if (chosen.size() < count) return sample(others(), count);  // it stands there several times
  chosen.resize(count);
  return chosen;
}

}  // namespace mt
