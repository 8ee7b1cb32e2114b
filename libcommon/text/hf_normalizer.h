// HfNormalizer: what a tokenizer.json makes of a text before it is cut.  Known are Sequence, NFC,
// NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace (of a string) and
// BertNormalizer; others are refused by name.  Constant once made; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mt {

class HfObject;

class HfNormalizer {
 public:
  HfNormalizer() = default;  // changes nothing
  explicit HfNormalizer(const HfObject& object);

  // `text` is and stays well-formed UTF-8.  False where its first characters are gone, so that it
  // no longer begins where it did.
  bool apply(std::string& text) const;

  bool empty() const { return steps_.empty(); }

 private:
  using Step = std::function<bool(std::string&)>;

  void add(const HfObject& object);

  std::vector<Step> steps_;
};

}  // namespace mt
