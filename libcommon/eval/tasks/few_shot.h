// FewShot: the examples that stand before a document's question, drawn as lm-evaluation-harness
// draws them: by Python's random.Random(seed), one stream for all documents of a task in their
// order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/samples/numpy_random.h"
#include "text/chat/chat_value.h"

namespace mt {

// Python's random.Random(seed), number for number, of what is drawn here.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);
  std::size_t below(std::size_t n);  // n > 0
  // random.sample(range(n), count), count <= n.
  std::vector<std::size_t> sample(std::size_t n, std::size_t count);

 private:
  RandomState random_;
};

struct FewShotOptions {
  std::int64_t count = 0;
  bool first_n = false;       // the first ones instead of a sample
  bool draws_itself = false;  // the documents may be among the pool: none is its own example
  std::uint64_t seed = 1234;
  std::string place = {};  // of the pool, for errors
};

class FewShot {
 public:
  FewShot(std::vector<ChatValue> pool, FewShotOptions options);

  // The examples of the next document.  Exit::bad_data where the pool has too few.
  std::vector<ChatValue> next(const ChatValue& doc);

 private:
  std::vector<ChatValue> sample(std::span<const ChatValue> pool, std::size_t count);
  [[noreturn]] void refuse() const;

  std::vector<ChatValue> pool_;
  FewShotOptions options_;
  PythonRandom random_;
};

}  // namespace mt
