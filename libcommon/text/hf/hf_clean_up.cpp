#include "text/hf/hf_clean_up.h"

#include <string_view>
#include <utility>

namespace mt {
namespace {

constexpr std::pair<std::string_view, std::string_view> kRules[] = {
    {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
constexpr std::string_view kOfRules = " .?!,'ntmsver";  // all characters that a rule names

class Cleaning : public StreamDecoder {
 public:
  explicit Cleaning(std::unique_ptr<StreamDecoder> decoder) : decoder_(std::move(decoder)) {}

  // No rule reaches across a character that none names.
  void push(std::int32_t id, std::string& text) override {
    decoder_->push(id, held_);
    const std::size_t last = held_.find_last_not_of(kOfRules);
    if (last == std::string::npos) return;
    std::string done = held_.substr(0, last + 1);
    held_.erase(0, last + 1);
    hf_clean_up(done);
    text += done;
  }
  void finish(std::string& text) override {
    decoder_->finish(held_);
    hf_clean_up(held_);
    text += std::exchange(held_, {});
  }

 private:
  std::unique_ptr<StreamDecoder> decoder_;
  std::string held_;
};

}  // namespace

void hf_clean_up(std::string& text) {
  for (const auto& [from, to] : kRules) {
    std::string result;
    std::size_t last = 0;
    for (std::size_t at; (at = text.find(from, last)) != text.npos; last = at + from.size())
      result.append(text, last, at - last).append(to);
    text = result.append(text, last);
  }
}

std::unique_ptr<StreamDecoder> hf_clean_up(std::unique_ptr<StreamDecoder> decoder) {
  return std::make_unique<Cleaning>(std::move(decoder));
}

}  // namespace mt
