// Any bytes as the files of a tokenizer folder without a tokenizer.json: the first byte says which,
// and merges.txt or else the tokenizer_config.json follows a NUL.  Refused with one line, or a
// tokenizer whose ids are its own.
//
// Parser: libcommon/text/bpe/tekken.cpp
// Parser: libcommon/text/hf/hf_from_files.cpp
// Parser: libcommon/text/hf/hf_from_ranks.cpp
// Parser: libcommon/text/hf/hf_from_sentencepiece.cpp
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/hf/hf_from_files.h"
#include "text/hf/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  static constexpr const char* kNames[] = {"vocab.json", "vocab.txt", "tokenizer.model",
                                           "tekken.json"};
  const std::string_view all(reinterpret_cast<const char*>(input) + 1, size - 1);
  const std::string first(all.substr(0, all.find('\0')));
  const std::string behind(all.substr(std::min(first.size() + 1, all.size())));
  const char* const name = kNames[input[0] % std::size(kNames)];
  std::vector<mt::HfConfigFile> files = {{name, first}}, config_files;
  if (std::string_view(name) == "vocab.json")
    files.push_back({"merges.txt", behind});
  else if (std::string_view(name) == "tokenizer.model")
    files[0].content = all;
  else if (!behind.empty())
    config_files.push_back({"tokenizer_config.json", behind});
  try {
    mt::HfConfig config = mt::read_hf_config(config_files, mt::HfTokenizer::kVersion);
    if (!config.has_class) config.tokenizer_class = &mt::hf_class(mt::hf_class_of_files(files));
    mt::fill_hf_roles(config, mt::HfTokenizer::kVersion);
    const std::string json = mt::hf_json_from(files, config, mt::HfTokenizer::kVersion);
    const mt::HfTokenizer tokenizer(json, "fuzz", config_files);
    std::vector<std::int32_t> ids;
    tokenizer.encode(" Tom's  12 cats,\tof\r\n-\xC3\xA9 e\xCC\x81\xFF <s></s>", ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
