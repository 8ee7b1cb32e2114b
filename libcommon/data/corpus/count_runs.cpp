#include "data/corpus/count_runs.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <queue>
#include <utility>

#include "data/corpus/words.h"

namespace mt {
namespace {

constexpr std::size_t kBufferBytes = 256 << 10;     // of the run that is written
constexpr std::size_t kLeastBufferBytes = 4 << 10;  // of a run that is read,
constexpr std::size_t kBuffersBytes = 16 << 20;     // of all of them, about

struct Head {  // of a word in a run, whose bytes follow
  std::int64_t count;
  std::uint32_t size;
};
constexpr std::size_t kHeadBytes = sizeof(std::int64_t) + sizeof(std::uint32_t);

// Which words cost no more than `memory` together.
class Selection {
 public:
  explicit Selection(CountRuns::Costs costs) : costs_(costs) {}

  void add(std::string_view word, std::int64_t count) {
    cost_of_[count] += cost(word);
    ++words_;
  }
  void choose(std::size_t memory) {
    while (!cost_of_.empty() && cost_of_.rbegin()->second <= memory) {
      memory -= cost_of_.rbegin()->second;
      cost_of_.erase(std::prev(cost_of_.end()));
    }
    if (cost_of_.empty()) return;
    const auto [count, cost] = *cost_of_.rbegin();
    partly_ = count;
    share_ = static_cast<double>(memory) / static_cast<double>(cost);
  }
  bool takes(std::string_view word, std::int64_t count) const {
    return count > partly_ || (count == partly_ && share_of(word) < share_);
  }
  std::int64_t words() const { return words_; }
  std::int64_t whole_from() const { return partly_ + 1; }

 private:
  std::size_t cost(std::string_view word) const { return costs_.word + word.size() * costs_.byte; }
  // In [0, 1), as if at random.
  static double share_of(std::string_view word) {
    std::uint64_t hash = word.size();
    for (const char byte : word) hash = mixed(hash ^ static_cast<unsigned char>(byte));
    return static_cast<double>(hash >> 11) * 0x1p-53;
  }

  CountRuns::Costs costs_;
  std::map<std::int64_t, std::size_t> cost_of_;  // of the words that occur so often
  std::int64_t words_ = 0, partly_ = 0;
  double share_ = 0;  // of the words that occur partly_ times
};

}  // namespace

// A run's words, from first to last.
class CountRuns::Reader {
 public:
  Reader(const File& file, Run run, std::size_t buffer)
      : file_(file), rest_(run), buffer_(std::max(buffer, kLeastBufferBytes)) {}

  bool next() {
    if (rest_.begin == rest_.end && at_ == filled_) return false;
    Head head;
    need(kHeadBytes);
    std::memcpy(&head.count, &buffer_[at_], sizeof head.count);
    std::memcpy(&head.size, &buffer_[at_ + sizeof head.count], sizeof head.size);
    need(kHeadBytes + head.size);
    count_ = head.count;
    word_ = as_text(Bytes(buffer_).subspan(at_ + kHeadBytes, head.size));
    at_ += kHeadBytes + head.size;
    return true;
  }
  std::string_view word() const { return word_; }
  std::int64_t count() const { return count_; }

 private:
  // So many bytes are in the buffer from at_ on.
  void need(std::size_t bytes) {
    if (filled_ - at_ >= bytes) return;
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
    filled_ -= at_;
    at_ = 0;
    if (bytes > buffer_.size()) buffer_.resize(bytes);
    const std::size_t more = static_cast<std::size_t>(
        std::min<std::uint64_t>(buffer_.size() - filled_, rest_.end - rest_.begin));
    file_.read_at(rest_.begin, std::span(buffer_).subspan(filled_, more));
    rest_.begin += more;
    filled_ += more;
  }

  const File& file_;
  Run rest_;  // not yet in the buffer
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0, filled_ = 0;
  std::string_view word_;
  std::int64_t count_ = 0;
};

void CountRuns::write(PieceCounts& counts) {
  std::vector<const std::pair<std::string, std::int64_t>*> sorted;
  for (const auto& entry : counts) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, [](const auto* entry) -> std::string_view { return entry->first; });
  const std::lock_guard lock(mutex_);
  if (!file_) file_.emplace(path_, true);
  Run run = {size_, size_};
  std::vector<std::byte> buffer;
  const auto flush = [&] {
    file_->write(Bytes(buffer));
    run.end += buffer.size();
    buffer.clear();
  };
  const auto put = [&](Bytes bytes) { buffer.insert(buffer.end(), bytes.begin(), bytes.end()); };
  for (const auto* entry : sorted) {
    const auto size = static_cast<std::uint32_t>(entry->first.size());
    put(std::as_bytes(std::span(&entry->second, 1)));
    put(std::as_bytes(std::span(&size, 1)));
    put(as_bytes(entry->first));
    if (buffer.size() >= kBufferBytes) flush();
  }
  flush();
  size_ = run.end;
  runs_.push_back(run);
  counts.clear();
}

// By the order of their bytes, each with the sum of its counts.
void CountRuns::for_each_word(const Found& found) const {
  const File file = File::open(file_->temporary_path());
  std::vector<Reader> readers;
  readers.reserve(runs_.size());
  const auto later = [](const Reader* a, const Reader* b) { return a->word() > b->word(); };
  std::priority_queue<Reader*, std::vector<Reader*>, decltype(later)> queue(later);
  for (const Run run : runs_) {
    readers.emplace_back(file, run, kBuffersBytes / runs_.size());
    if (readers.back().next()) queue.push(&readers.back());
  }
  std::string word;
  while (!queue.empty()) {
    word = queue.top()->word();
    std::int64_t count = 0;
    while (!queue.empty() && queue.top()->word() == word) {
      Reader* const reader = queue.top();
      queue.pop();
      count += reader->count();
      if (reader->next()) queue.push(reader);
    }
    found(word, count);
  }
}

CountRuns::Choice CountRuns::take(std::vector<PieceCounts*> counts, Costs costs, std::size_t memory,
                                  PieceCounts& all) {
  if (counts.empty()) return {};
  if (runs_.empty()) {
    for (PieceCounts* const some : std::span(counts).subspan(1)) {
      counts.front()->merge(*some);
      some->clear();
    }
  } else {
    for (PieceCounts* const some : counts)
      if (!some->empty()) write(*some);
  }
  const auto each_word = [&](const Found& found) {
    if (!runs_.empty()) return for_each_word(found);
    for (const auto& [word, count] : *counts.front()) found(word, count);
  };
  Selection selection(costs);
  each_word([&](std::string_view word, std::int64_t count) { selection.add(word, count); });
  selection.choose(memory);
  if (runs_.empty() && selection.whole_from() == 1)
    std::swap(all, *counts.front());
  else
    each_word([&](std::string_view word, std::int64_t count) {
      if (selection.takes(word, count)) all.add(word, count);
    });
  counts.front()->clear();
  return {selection.whole_from(), selection.words() - static_cast<std::int64_t>(all.size())};
}

}  // namespace mt
